"""Issue tokens for STS's AssumeRoleWithWebIdentity, as an OIDC issuer outside of AWS does, such as GitHub's."""

import secrets


class FakeTokenIssuer:
    """An OIDC issuer, registered with `account.token_issuers[url] = FakeTokenIssuer()`.

    STS asks the issuer for its keys and verifies a token's signature. Here the issuer knows its tokens itself, so that
    nobody else can make one.
    """

    def __init__(self) -> None:
        self._claims: dict[str, tuple[str, str]] = {}

    def token(self, subject: str, audience: str = "sts.amazonaws.com") -> str:
        """Return a new token with these claims."""
        token = secrets.token_urlsafe()
        self._claims[token] = subject, audience
        return token

    def user_of_token(self, token: str, audience: str) -> str | None:
        """Return the subject of a token that this issuer gave for the audience, or None."""
        subject, given_for = self._claims.get(token, ("", ""))
        return subject if given_for == audience and subject else None
