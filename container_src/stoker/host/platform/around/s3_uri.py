"""Places in S3, as `s3://bucket/key`."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.errors import HostError


@dataclass(frozen=True, slots=True, order=True)
class S3Uri:
    """A bucket and a key in it; the key may be a prefix, or empty."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    def join(self, *names: str) -> S3Uri:
        """The place below this one, with exactly one slash between the parts."""
        start = [self.key.rstrip("/")] if self.key.rstrip("/") else []
        return S3Uri(self.bucket, "/".join([*start, *names]))

    def name_below(self, prefix: S3Uri) -> str | None:
        """This key relative to a folder; None if it is not below it.

        `x/code` as a mere prefix also matches `x/code2/a`; as a folder it does not.
        """
        start = prefix.key if prefix.key.endswith("/") or not prefix.key else f"{prefix.key}/"
        if self.bucket != prefix.bucket or not self.key.startswith(start):
            return None
        return self.key[len(start) :]


def parse_uri(uri: str) -> S3Uri:
    """Read `s3://bucket/key`.

    Raises:
        HostError: it is not one.
    """
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme not in ("s3", "https") or not bucket:
        raise HostError(f"{uri!r} is no place in S3", fix="write it as s3://BUCKET/KEY")
    if scheme == "https":
        # The API takes https addresses, too: s3.amazonaws.com/bucket/key (path style).
        bucket, _, key = key.partition("/")
    return S3Uri(bucket, key)
