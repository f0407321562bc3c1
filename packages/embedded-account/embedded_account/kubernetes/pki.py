"""The certificates and keys of one control plane, made anew each time and valid for a month."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID_FOR = timedelta(days=30)
SERVICE_IP: Final = "10.100.0.1"
"""Address of the `kubernetes` service, which the server's certificate names."""


@dataclass(frozen=True)
class Pki:
    """Files of a control plane's certificate authorities and what they signed (PEM). etcd's trusts nobody else's."""

    ca: Path
    server_certificate: Path
    server_key: Path
    admin_certificate: Path
    admin_key: Path
    service_account_key: Path
    service_account_public_key: Path
    etcd_ca: Path
    etcd_certificate: Path
    etcd_key: Path
    etcd_client_certificate: Path
    etcd_client_key: Path


def create(directory: Path, *, service_ip: str) -> Pki:
    """Write the API server's and an admin's certificate, etcd's, their authorities, and service accounts' key pair.

    `service_ip` is the address of the `kubernetes` service, which the server's certificate must name. The
    service accounts' key is RSA, as EKS's is: what verifies its tokens expects RS256.
    """
    directory.mkdir(parents=True, exist_ok=True)
    pki = Pki(
        ca=directory / "ca.crt",
        server_certificate=directory / "apiserver.crt",
        server_key=directory / "apiserver.key",
        admin_certificate=directory / "admin.crt",
        admin_key=directory / "admin.key",
        service_account_key=directory / "service-account.key",
        service_account_public_key=directory / "service-account.pub",
        etcd_ca=directory / "etcd-ca.crt",
        etcd_certificate=directory / "etcd.crt",
        etcd_key=directory / "etcd.key",
        etcd_client_certificate=directory / "apiserver-etcd-client.crt",
        etcd_client_key=directory / "apiserver-etcd-client.key",
    )
    authority = _Authority("rehearsal-ca", pki.ca)
    names = x509.SubjectAlternativeName(
        [
            x509.DNSName("localhost"),
            x509.DNSName("kubernetes.default.svc"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.IPAddress(ipaddress.ip_address(service_ip)),
        ]
    )
    authority.issue(_name("kube-apiserver"), pki.server_certificate, pki.server_key, names)
    authority.issue(_name("rehearsal-admin", "system:masters"), pki.admin_certificate, pki.admin_key)
    etcd = _Authority("rehearsal-etcd-ca", pki.etcd_ca)
    local = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    # A member is a client, too: of its peers, and of itself.
    etcd.issue(_name("etcd"), pki.etcd_certificate, pki.etcd_key, local, also_client=True)
    etcd.issue(_name("kube-apiserver-etcd-client"), pki.etcd_client_certificate, pki.etcd_client_key)
    signing_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    _write_key(pki.service_account_key, signing_key)
    pki.service_account_public_key.write_bytes(
        signing_key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return pki


class _Authority:
    """A certificate authority that lives as long as this object: its key is never written."""

    def __init__(self, name: str, certificate: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        own = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        certificate.write_bytes(own.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        subject: x509.Name,
        certificate: Path,
        key: Path,
        names: x509.SubjectAlternativeName | None = None,
        *,
        also_client: bool = False,
    ) -> None:
        """Write a key and a certificate for it; with `names` it is a server's, without a client's."""
        private = ec.generate_private_key(ec.SECP256R1())
        usage = [ExtendedKeyUsageOID.SERVER_AUTH] if names else []
        usage += [ExtendedKeyUsageOID.CLIENT_AUTH] if also_client or not names else []
        builder = (
            _builder(subject, self._name, private.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        )
        if names:
            builder = builder.add_extension(names, critical=False)
        certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        _write_key(key, private)


def _name(common_name: str, organization: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _VALID_FOR)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
