import subprocess

from embedded_account.running import serve

with serve(".embedded-account", region="us-west-2") as account:

    def run(*command: str) -> None:
        subprocess.run(command, env=account.environment, check=True)

    run("cdk", "synth", "--quiet")
    run("cdk", "bootstrap", "--app", "cdk.out")
    run("cdk", "deploy", "--app", "cdk.out", "--require-approval", "never")
    kubeconfig = f"--kubeconfig={account.admin_kubeconfig('greeter')}"
    run("kubectl", kubeconfig, "get", "deployments,configmaps", "--namespace=greetings", "--output=yaml")
    run("cdk", "destroy", "--app", "cdk.out", "--force")
    for item in account.inventory():
        print("left:", item["owner"], item["type"], item["id"])
