"""Find the added lines of a text that runs, of a shell or in Python, that are dangerous.

A line is dangerous if it can delete data, open the network, lift limits of privileges, or run code that it fetches.
The text is read and not run: a doubtful line counts as dangerous, but a command that is put together from variables is
not recognised.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

ONLY_TELLS: Final = re.compile(
    r"\w*LOG_?(\w+_)?(LEVEL|FORMAT|FILTERS)|\w*VERBOS\w*|TZ|LANG|LC_\w+|PYTHON(UNBUFFERED|UTF8|HASHSEED)"
)
"""Names of variables that say only how much a program writes, and how."""
_SHELL: Final = r"(?:sudo\s+(?:-\S+\s+)*)?(?:[\w./]*/)?(?:env\s+)?(?:ba|da|z|k|a)?sh\b"
_INTERPRETER: Final = rf"{_SHELL}|(?:sudo\s+)?\S*(?:python[\d.]*|perl|ruby|node)\b"
_FETCH: Final = r"\b(?:curl|wget|aws\s[^;&|]*s3\s+cp|aws\s[^;&|]*get-object)\b"
_DECODE: Final = r"\b(?:base(?:64|32)\s+(?:-\w*[dD]|--decode)|xxd\s+-\w*r|openssl\s[^|]*\s-d|gunzip|zcat)"
_FIREWALL: Final = r"(?:firewalld|ufw|iptables|nftables)"

# Each is searched in a line without quotes and backslashes: `"rm" -rf`, `["rm", "-rf"]` and `r\m -rf` are one command.
_DELETES: Final = (
    r"(?<![\w.-])(?:mkfs(?:\.\w+)?|mke2fs|wipefs|shred|blkdiscard|lvremove|vgremove|pvremove|pvcreate|luksFormat)\b",
    r"(?<![\w.-])(?:s?fdisk|sgdisk|parted)\b(?!\s+(?:-l|--list|\S+\s+print))",
    r"(?<![\w.-])dd\s[^;&|]*\bof=(?!/dev/null\b)",
    r"(?<![\w.-])truncate\s[^;&|]*(?:-s|--size)",
    r"(?<![\w.-])find\s[^;&|]*\s-delete\b",
    r"\brsync\s[^;&|]*--del(?:ete|\b)",
    r"\brclone\s[^;&|]*\b(?:delete|purge|sync)\b",
    r"\baws\s(?:[^;&|]*\s)?s3\s+(?:rm|rb)\b",
    r"\baws\s(?:[^;&|]*\s)?s3\s+sync\s[^;&|]*--delete",
    r"\baws\s[^;&|]*\s(?:batch-)?(?:delete|terminate|purge|schedule-key-deletion)\b",
    r"\b(?:gsutil\s(?:[^;&|]*\s)?rm|hdfs\s[^;&|]*-rm|docker\s+(?:volume|system)\s+(?:rm|prune))\b",
    r"\bkubectl\s(?:[^;&|]*\s)?(?:delete|drain)\b",
    r"\bhelm\s(?:[^;&|]*\s)?(?:uninstall|delete)\b",
    r"(?<![\w./-])lfs\s+(?!df|getstripe|getname|find|quota|check|osts|mdts|help|path2fid|fid2path|--)\w",
    r"(?<![\w./-])lctl\s+(?!list_nids|dl\b|get_param|ping|list_param|version|which_nid|device_list|--)\w",
    r">\s*/dev/(?:sd|nvme|xvd|vd|mapper)",
    r"\bmv\s[^;&|]*\s/dev/null\b",
    r"\brmtree\(",
    r"\.(?:batch_)?(?:delete|terminate|purge|schedule_key_deletion)(?:_\w+)?\(",
)
_OPENS: Final = (
    r"(?<![\d.])0\.0\.0\.0/0",
    r"(?<![\w:])::/0",
    r"\bip6?tables\b[^;&|]*(?:\s-[FX]\b|--flush|\s(?:-P|--policy)\s+\w+\s+ACCEPT|\s-[AI]\s+\w+\b[^;&|]*-j\s+ACCEPT)",
    r"\bnft\s[^;]*(?:flush\b|policy\s+accept)",
    r"\bufw\s(?:[^;&|]*\s)?(?:disable|reset|allow)\b",
    rf"\bsystemctl\s[^;&|]*\b(?:stop|disable|mask)\b[^;&|]*{_FIREWALL}",
    rf"\bservice\s+{_FIREWALL}\s+stop",
    r"\bfirewall-cmd\s[^;&|]*--(?:add|set-default-zone|zone=trusted)",
    r"\b(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-nistp\d+|sk-\w+-\w+@openssh\.com)\s+AAAA",
    r"\bsshd_config\b|\bauthorized_keys\b|(?i:\bPermitRootLogin\b|\bPasswordAuthentication\s+yes|\bPermitEmptyPasswords\b)",
    r"\bauthorize[-_]security[-_]group",
    r"/dev/tcp/|\b(?:nc|ncat|netcat)\s[^;&|]*\s-\w*e\b|\bsocat\s[^;]*\bEXEC",
)
_LIFTS: Final = (
    # Writable by all, but not the sticky 1777 of a directory for temporary files; setuid.
    r"\bchmod\s+(?:-\S+\s+)*(?:0?[0-7]{2}[2367]|[2-7][0-7]{2}[2367]|[4-7][0-7]{3})\b",
    r"\bchmod\s+(?:-\S+\s+)*(?:[ugoa]*[ao][ugoa]*[+=][rxXst]*w|[uoa]*\+[rwxX]*s)",
    r"chmod\(.*\b0o(?:[0-7]{2}[2367]|[4-7][0-7]{3})\b",
    r"\bsudoers\b|\bNOPASSWD\b|\bvisudo\b",
    r"\b(?:usermod\s[^;&|]*-\w*G|gpasswd\s+-a)\s[^;&|]*\b(?:sudo|wheel|docker|root)\b",
    r"--privileged\b(?!=false)|(?i:\bprivileged[=:]\s*true\b)",
    r"\bsetenforce\s+0|\bsetcap\b|--cap-add\b|\b(?:apparmor|seccomp)[=:]unconfined",
    r"\bpasswd\s+-d\b|\bchpasswd\b",
)
_FETCHES: Final = (
    rf"(?:{_FETCH}|{_DECODE}).*\|\s*(?:{_INTERPRETER})",
    rf"(?:\beval\b|\bsource\b|(?<!\S)\.|{_INTERPRETER})\s.*(?:\$\(|<\(|`).*(?:{_FETCH}|{_DECODE})",
    r"\b(?:exec|eval|compile)\(.*(?:urlopen|requests\.|httpx\.|b64decode|\.recv\()",
    r"\bpip[\d.]*\s+install\s.*(?:https?://|ftp://|git\+|s3://|--(?:extra-)?index-url|--find-links|\s-[if]\s)",
    r"\b(?:npm|yum|dnf|rpm|snap|apt|apt-get|go)\s.*https?://",
)
_DANGEROUS: Final = [re.compile(pattern) for pattern in (*_DELETES, *_OPENS, *_LIFTS, *_FETCHES)]

_RM: Final = re.compile(r"(?<![\w.-])(?<!git )(?:rm|unlink)(?=[\s\]]|$)([^;&|<>()]*)")
_TEMPORARY: Final = re.compile(
    r"/(?:tmp|var/tmp|run|var/run|dev/shm)/[^*?{]+|\$\{?\w+\}?|\$\{?\w*te?mp\w*\}?/[^*?{]+", re.I
)

# These only show their arguments, or compare with them. The helpers' names are this project's and common ones.
_SHOWS: Final = re.compile(
    r"(?:(?:then|do|else|if|while|until|!|\{|\(|\|\|)\s+)*"
    r"(?:echo|printf|logger|e?grep|rg|man|which|type|hash|command\s+-v|test|\[\[?|say|fail|die|warn|info|note|log|error)(?=\s|$)"
)
_SHOWS_IN_PYTHON: Final = re.compile(
    r"(?:print|_?log(?:ger|ging)?\.\w+|raise\s+[\w.]+|sys\.std(?:out|err)\.write)\s*\("
)
_KEEPS: Final = re.compile(r"\|\s*(?:tee\s+(?:-a\s+)?\S*log\S*|logger\b.*|cat)\s*$")
_WRITES: Final = re.compile(r">(?!\s*(?:&\d|/dev/(?:null|stderr|stdout)))")
_QUOTED: Final = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
_OPERATOR: Final = re.compile(r"\|\||&&|[|;]|(?<!>)&(?!>)")
_ASSIGNED: Final = re.compile(r"(?:(?:export|local|readonly|declare)\s+(?:-\w+\s+)*)?(\w+)=(.*)")
_VARIABLE: Final = re.compile(r"\$\{?(\w+)")

_DOWNLOAD: Final = re.compile(
    r"\bcurl\s[^;&|]*?(?:-\w*o|--output)[\s=]*([^\s;&|]+)|\bwget\s[^;&|]*?(?:-\w*O|--output-document)[\s=]*([^\s;&|]+)"
    r"|\bcurl\s[^;&|]*?(?:-\w*O|--remote-name)\b[^;&|]*/([^\s;&|]+)|\bwget\s[^;&|]*/([\w.-]+)"
    r"|\baws\s[^;&|]*s3\s+cp\s+s3:\S+\s+([^\s;&|]+)|\b(?:curl|wget)\s[^;&|]*>\s*([^\s;&|]+)"
    rf"|{_DECODE}[^;&|]*>\s*([^\s;&|]+)"
)
_RUN: Final = re.compile(
    rf"(?:^|[;&|(]\s*)(?:(?:{_INTERPRETER}|source|exec|\.)\s+(?:-\S+\s+)*|chmod\s+\S*\+\S*x\S*\s+|(?=\.?/))([\w./${{}}-]+)"
)


def dangerous_lines(before: str, after: str) -> list[str]:
    """Return the dangerous lines of `after` that `before` lacks, in their order.

    A comment, a docstring and a shown message are no lines that act, and a moved line is not added. A changed variable
    counts if a dangerous line uses it.
    """
    known, lines = Counter(_acting(before)), list(_acting(after))
    added: list[str] = []
    for line in lines:
        if known[line]:
            known[line] -= 1
        else:
            added.append(line)
    dangerous = {line for line in lines if _is_dangerous(line)} | _of_downloads(lines)
    variables = _used(dangerous, lines)
    return [line for line in added if line in dangerous or _assigned(line) & variables]


def _acting(text: str) -> Iterator[str]:
    """Yield the lines of code without comments and docstrings, continued lines as one, spaces as one."""
    started = ""
    for line in _without_docstrings(text).splitlines():
        code = " ".join(f"{started} {_without_comment(line)}".split())
        if code.endswith("\\") or code.endswith(("|", "&&")):
            started = code.removesuffix("\\")
            continue
        started = ""
        if code:
            yield code
    if started:
        yield started


def _without_docstrings(text: str) -> str:
    """Return the text without docstrings; the text itself unless it is Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return text
    lines = text.splitlines()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node) is not None:
            docstring = node.body[0]
            last = docstring.end_lineno or docstring.lineno
            # Code may follow the docstring on its last line, or stand before it on its first.
            rest = lines[last - 1].encode()[docstring.end_col_offset or 0 :].decode()
            head = lines[docstring.lineno - 1].encode()[: docstring.col_offset].decode()
            lines[docstring.lineno - 1 : last] = [head + rest, *[""] * (last - docstring.lineno)]
    return "\n".join(lines)


def _without_comment(line: str) -> str:
    """Cut the line at a `#` that begins a word outside quotes."""
    quote = ""
    for position, character in enumerate(line):
        escaped = position > 0 and line[position - 1] == "\\"
        if character in "'\"" and not escaped:
            quote = character if not quote else "" if quote == character else quote
        elif character == "#" and not quote and (position == 0 or line[position - 1] in " \t;|&()"):
            return line[:position]
    return line


def _is_dangerous(line: str) -> bool:
    code = _plain(_without_messages(line))
    return any(pattern.search(code) for pattern in _DANGEROUS) or any(
        _deletes_data(found[1].split()) for found in _RM.finditer(code)
    )


def _plain(line: str) -> str:
    """Return the line without quotes and backslashes, and the items of a list of strings as words of one command."""
    return re.sub(r"['\"\\]", "", re.sub(r"['\"]\s*,\s*f?['\"]", " ", line))


def _deletes_data(arguments: list[str]) -> bool:
    """Return whether `rm` with these arguments deletes more than single files that are named, and temporary."""
    options = [each for each in arguments if each.startswith("-")]
    files = [each.strip("],") for each in arguments if not each.startswith("-")]
    recursive = any(re.match(r"-[a-zA-Z]*[rR]|--recursive", option) for option in options)
    temporary = bool(files) and all(_TEMPORARY.fullmatch(file) and ".." not in file for file in files)
    return recursive or not temporary


def _without_messages(line: str) -> str:
    """Return the line without the texts that it only shows; what they substitute (`$(…)`) stays."""
    if _SHOWS_IN_PYTHON.match(line):
        return _QUOTED.sub(_substituted, line)
    parts = _commands(line)
    for position, part in enumerate(parts):
        rest = "".join(parts[position:])
        piped = position + 1 < len(parts) and parts[position + 1].startswith("|") and parts[position + 1] != "||"
        shown = _SHOWS.match(part.strip()) and not _WRITES.search(_QUOTED.sub("", part))
        if shown and (not piped or _KEEPS.search(rest)):
            parts[position] = " ".join(_substituted(found) for found in re.finditer(r".+", part))
    return "".join(parts)


def _substituted(found: re.Match[str]) -> str:
    text = re.sub(r"(?<!\")'[^']*'", "", found[0])
    return " ".join(re.findall(r"\$\(.*\)|`[^`]*`|(?<!\$)\{[^}]*\(.*\}", text))


def _commands(line: str) -> list[str]:
    """Split the line into commands and the operators between them (`;`, `&&`, `|`), outside quotes and `$(…)`."""
    parts, quote, depth = [""], "", 0
    position = 0
    while position < len(line):
        character = line[position]
        if character == "\\":
            parts[-1] += line[position : position + 2]
            position += 2
            continue
        if character in "'\"":
            quote = character if not quote else "" if quote == character else quote
        if not quote and character in "()":
            depth += 1 if character == "(" else -1
        operator = _OPERATOR.match(line, position) if not quote and depth <= 0 else None
        if operator:
            parts += [operator[0], ""]
            position += len(operator[0])
            continue
        parts[-1] += character
        position += 1
    return parts


def _of_downloads(lines: list[str]) -> set[str]:
    """Return the lines that fetch a file and those that run it, for each file for which there are both."""
    fetched: dict[str, set[str]] = {}
    run: dict[str, set[str]] = {}
    for line in lines:
        plain = _plain(line)
        for found in _DOWNLOAD.finditer(plain):
            name = next(group for group in found.groups() if group)
            fetched.setdefault(_name(name), set()).add(line)
        for found in _RUN.finditer(plain):
            run.setdefault(_name(found[1]), set()).add(line)
    return {line for name in fetched.keys() & run.keys() for line in fetched[name] | run[name]}


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2].strip("${}")


def _used(dangerous: set[str], lines: list[str]) -> set[str]:
    """Return the shell variables that the dangerous lines use, also by way of other variables."""
    used = {name for line in dangerous for name in _VARIABLE.findall(line)}
    while True:
        further = {
            name
            for line in lines
            if (found := _ASSIGNED.match(line)) and found[1] in used
            for name in _VARIABLE.findall(found[2])
        } - used
        if not further:
            return used
        used |= further


def _assigned(line: str) -> set[str]:
    found = _ASSIGNED.match(line)
    return {found[1]} if found else set()
