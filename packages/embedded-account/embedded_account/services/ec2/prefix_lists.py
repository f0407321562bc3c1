"""CloudFormation's model of customer-managed prefix lists."""

from typing import Any

from botocore.exceptions import ClientError

from embedded_account.services.ec2.model import Ec2Model
from embedded_account.services.shared.api_model import Properties
from embedded_account.services.shared.resource_model import cloudformation_model


@cloudformation_model("AWS::EC2::PrefixList")
class PrefixList(Ec2Model):
    """A list of IPv4 blocks; `Ref` is its id. EC2 API reference, CreateManagedPrefixList and its neighbours."""

    MUTABLE = frozenset({"Entries", "Tags"})
    KNOWN = MUTABLE | {"AddressFamily", "MaxEntries", "PrefixListName"}

    def make(self) -> str:
        self._require_room()
        given = self.only("AddressFamily", "Entries", "MaxEntries", "PrefixListName")
        return str(self.api.create_managed_prefix_list(**given)["PrefixList"]["PrefixListId"])

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        super().change(old, changed)
        if "Entries" in changed:
            self._require_room()
            before, after = (
                {each["Cidr"]: each for each in side.get("Entries", [])} for side in (old, self.properties)
            )
            self.api.modify_managed_prefix_list(
                PrefixListId=self.physical_resource_id,
                PrefixListName=self.properties["PrefixListName"],
                CurrentVersion=self._described()["Version"],
                AddEntries=[after[cidr] for cidr in after if after[cidr] != before.get(cidr)],
                RemoveEntries=[{"Cidr": cidr} for cidr in before if before[cidr] != after.get(cidr)],
            )

    def unmake(self) -> None:
        self.api.delete_managed_prefix_list(PrefixListId=self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        found = self._described()
        return {"PrefixListId": found["PrefixListId"], "Arn": found["PrefixListArn"], "OwnerId": found["OwnerId"]}

    def _described(self) -> Properties:
        [found] = self.api.describe_managed_prefix_lists(PrefixListIds=[self.physical_resource_id])["PrefixLists"]
        return dict(found)

    def _require_room(self) -> None:
        if len(self.properties.get("Entries", [])) > self.properties["MaxEntries"]:
            message = "You've reached the maximum number of entries for the prefix list."
            error: Any = {"Error": {"Code": "PrefixListMaxEntriesExceeded", "Message": message}}
            raise ClientError(error, "CreateManagedPrefixList")
