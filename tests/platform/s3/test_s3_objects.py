"""What boto3 and plain HTTP ask of S3, against the real server."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import io
import os
import socket
import threading
import urllib.error
import urllib.parse
import urllib.request
import zlib
from datetime import UTC, datetime

import boto3
import crc32c
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

from stoker.machine.processes import descendants
from stoker.platform.s3 import http_server
from tests.conftest import OF_THE_SESSION
from tests.s3_server import running_s3

pytestmark = pytest.mark.functional

BUCKET = "bucket"
DEADLINE_SECONDS = 60
MIB = 1 << 20


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with running_s3(tmp_path_factory.mktemp("s3")) as address:
        OF_THE_SESSION.update(descendants(os.getpid()))
        yield address


@pytest.fixture(scope="module")
def session():
    return boto3.session.Session()


@pytest.fixture
def s3(address, session):
    client = make_client(session, address)
    client.create_bucket(Bucket=BUCKET)
    yield client
    keys = [e["Key"] for e in client.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
    for key in keys:
        client.delete_object(Bucket=BUCKET, Key=key)
    # Uploads that are under way do not keep a bucket, and what lists empty can be deleted.
    client.delete_bucket(Bucket=BUCKET)


def make_client(session, address, **config):
    return session.client(
        "s3",
        endpoint_url=address,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        config=Config(proxies={}, read_timeout=DEADLINE_SECONDS, **config),
    )


def read(s3, key, **params):
    with s3.get_object(Bucket=BUCKET, Key=key, **params)["Body"] as body:
        return body.read()


def code_of(call, **params):
    with pytest.raises(ClientError) as caught:
        call(Bucket=BUCKET, **params)
    return caught.value.response["Error"]["Code"]


def test_a_body_with_an_encoding_comes_back_as_it_was_sent(s3):
    content = gzip.compress(b"text" * 1000)
    about = {"ContentEncoding": "gzip", "ContentType": "text/plain", "CacheControl": "no-cache"}
    s3.put_object(Bucket=BUCKET, Key="k", Body=content, **about)
    head = s3.head_object(Bucket=BUCKET, Key="k")
    assert {name: head[name] for name in about} == about
    assert read(s3, "k") == content


@pytest.mark.parametrize(
    "key",
    ["a", "folder/", "new\nline", "ü/ö", "a//b", "/", "..", "a+b c%20&=?#", "k" * 1024, "\x7f"],
)
def test_any_key_is_stored_listed_copied_and_removed(s3, key):
    s3.put_object(Bucket=BUCKET, Key="a/b", Body=b"next_to")
    s3.put_object(Bucket=BUCKET, Key=key, Body=b"content")
    listed = s3.list_objects_v2(Bucket=BUCKET)["Contents"]
    assert sorted(each["Key"] for each in listed) == sorted({"a/b", key})
    assert key in [e["Key"] for e in s3.list_objects(Bucket=BUCKET, Prefix=key)["Contents"]]
    s3.copy_object(Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": key})
    assert read(s3, key) == read(s3, "copy") == b"content"
    assert read(s3, "a/b") == b"next_to"
    s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key}, {"Key": "copy"}]})
    assert [e["Key"] for e in s3.list_objects_v2(Bucket=BUCKET)["Contents"]] == ["a/b"]


def test_a_key_that_no_xml_can_hold_is_listed(s3):
    s3.put_object(Bucket=BUCKET, Key="\x01", Body=b"content")
    for list_keys in (s3.list_objects, s3.list_objects_v2):
        assert [e["Key"] for e in list_keys(Bucket=BUCKET, Prefix="\x01")["Contents"]] == ["\x01"]
    s3.delete_object(Bucket=BUCKET, Key="\x01")  # DeleteObjects would be XML


def test_a_key_that_is_too_long_is_refused(s3):
    assert code_of(s3.put_object, Key="k" * 1025, Body=b"x") == "KeyTooLongError"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"multipart_threshold": 5 * MIB, "multipart_chunksize": 5 * MIB, "max_concurrency": 10},
        {"use_threads": False},
        {"multipart_threshold": 100 * MIB},
    ],
    ids=str,
)
def test_transfers_and_copies_in_any_parts_are_whole(s3, tmp_path, settings):
    config = TransferConfig(**settings)
    content = os.urandom(MIB) * 17 + b"end"
    (tmp_path / "up").write_bytes(content)
    s3.upload_file(
        str(tmp_path / "up"), BUCKET, "k", Config=config, ExtraArgs={"Metadata": {"a": "b"}}
    )
    s3.copy({"Bucket": BUCKET, "Key": "k"}, BUCKET, "copy", Config=config)
    s3.download_file(BUCKET, "copy", str(tmp_path / "down"), Config=config)
    assert (tmp_path / "down").read_bytes() == content
    head = s3.head_object(Bucket=BUCKET, Key="k")
    parts = -(-len(content) // config.multipart_chunksize)
    if len(content) < config.multipart_threshold:
        assert head["ETag"] == f'"{hashlib.md5(content).hexdigest()}"'
        return
    assert head["ETag"].endswith(f'-{parts}"')
    part = s3.get_object(Bucket=BUCKET, Key="k", PartNumber=parts)
    with part["Body"] as body:
        assert body.read() == content[(parts - 1) * config.multipart_chunksize :]
    assert part["PartsCount"] == parts


def test_parts_that_do_not_fit_are_refused_and_an_upload_can_be_aborted(s3):
    upload = {"Key": "k", "UploadId": ""}
    upload["UploadId"] = s3.create_multipart_upload(Bucket=BUCKET, Key="k")["UploadId"]
    small = s3.upload_part(Bucket=BUCKET, PartNumber=1, Body=b"small", **upload)["ETag"]
    last = s3.upload_part(Bucket=BUCKET, PartNumber=2, Body=b"last", **upload)["ETag"]

    def complete(*parts):
        chosen = [{"PartNumber": number, "ETag": etag} for number, etag in parts]
        return code_of(s3.complete_multipart_upload, MultipartUpload={"Parts": chosen}, **upload)

    assert complete((1, small), (2, last)) == "EntityTooSmall"
    assert complete((2, last), (1, small)) == "InvalidPartOrder"
    assert complete((1, last)) == complete((3, last)) == "InvalidPart"
    assert len(s3.list_parts(Bucket=BUCKET, **upload)["Parts"]) == 2
    assert len(s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]) == 1
    s3.abort_multipart_upload(Bucket=BUCKET, **upload)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=BUCKET)
    assert complete((1, small)) == "NoSuchUpload"
    assert code_of(s3.head_object, Key="k") == "404"


def test_completing_an_upload_twice_gives_the_same_object(s3):
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="k")["UploadId"]
    place = {"Bucket": BUCKET, "Key": "k", "UploadId": upload}
    etag = s3.upload_part(**place, PartNumber=7, Body=b"only")["ETag"]
    parts = {"Parts": [{"PartNumber": 7, "ETag": etag}]}
    answers = [s3.complete_multipart_upload(**place, MultipartUpload=parts) for _ in range(2)]
    assert answers[0]["ETag"] == answers[1]["ETag"]
    assert read(s3, "k") == b"only"


def test_conditions_hold_for_reads_writes_and_deletes(s3):
    put = {"Key": "k", "Body": b"new"}
    assert code_of(s3.put_object, **put, IfMatch='"none"') == "NoSuchKey"
    etag = s3.put_object(Bucket=BUCKET, Key="k", Body=b"old", IfNoneMatch="*")["ETag"]
    assert code_of(s3.put_object, **put, IfNoneMatch="*") == "PreconditionFailed"
    assert code_of(s3.put_object, **put, IfMatch='"other"') == "PreconditionFailed"
    assert code_of(s3.get_object, Key="k", IfNoneMatch=etag) == "304"
    assert code_of(s3.get_object, Key="k", IfMatch='"other"') == "PreconditionFailed"
    assert read(s3, "k", IfMatch=etag) == b"old"
    assert code_of(s3.delete_object, Key="k", IfMatch='"other"') == "PreconditionFailed"
    s3.put_object(Bucket=BUCKET, **put, IfMatch=etag)
    assert read(s3, "k") == b"new"
    now = s3.head_object(Bucket=BUCKET, Key="k")
    assert code_of(s3.get_object, Key="k", IfModifiedSince=now["LastModified"]) == "304"
    s3.delete_object(Bucket=BUCKET, Key="k", IfMatch=now["ETag"])
    assert code_of(s3.head_object, Key="k") == "404"


def test_copies_keep_or_replace_metadata_and_tags(s3):
    source = {"Bucket": BUCKET, "Key": "k"}
    s3.put_object(**source, Body=b"x", Metadata={"old": "1"}, Tagging="a=1&b=%20")
    assert code_of(s3.copy_object, Key="k", CopySource=source) == "InvalidRequest"
    replaced = {"MetadataDirective": "REPLACE", "Metadata": {"new": "2"}, "ContentType": "a/b"}
    s3.copy_object(**source, CopySource=source, **replaced)
    head = s3.head_object(**source)
    assert (head["Metadata"], head["ContentType"]) == ({"new": "2"}, "a/b")
    tags = s3.get_object_tagging(**source)["TagSet"]
    assert tags == [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": " "}]
    s3.put_object_tagging(**source, Tagging={"TagSet": [{"Key": "c", "Value": "3"}]})
    assert s3.get_object_tagging(**source)["TagSet"] == [{"Key": "c", "Value": "3"}]
    assert s3.head_object(**source)["Metadata"] == {"new": "2"}
    s3.delete_object_tagging(**source)
    assert s3.get_object_tagging(**source)["TagSet"] == []


def encode(value):
    return base64.b64encode(value).decode()


BODY = b"123456789"
CHECKSUMS = {
    "ChecksumCRC32": encode(zlib.crc32(BODY).to_bytes(4, "big")),
    "ChecksumCRC32C": encode(crc32c.crc32c(BODY).to_bytes(4, "big")),
    # The check value that the algorithm is published with.
    "ChecksumCRC64NVME": encode(bytes.fromhex("ae8b14860a799888")),
    "ChecksumSHA1": encode(hashlib.sha1(BODY).digest()),
    "ChecksumSHA256": encode(hashlib.sha256(BODY).digest()),
    "ContentMD5": encode(hashlib.md5(BODY).digest()),
}


@pytest.mark.parametrize("name", CHECKSUMS)
def test_checksums_are_compared_and_kept(s3, name):
    right = CHECKSUMS[name]
    s3.put_object(Bucket=BUCKET, Key="k", Body=BODY, **{name: right})
    assert code_of(s3.put_object, Key="k", Body=b"987654321", **{name: right}) == "BadDigest"
    assert read(s3, "k") == BODY
    if name != "ContentMD5":
        head = s3.head_object(Bucket=BUCKET, Key="k", ChecksumMode="ENABLED")
        assert head[name] == right


@pytest.mark.parametrize("kind", ["COMPOSITE", "FULL_OBJECT"])
def test_an_object_in_parts_has_the_checksum_of_its_kind(s3, kind):
    parts = [os.urandom(5 * MIB), b"end"]
    about = {"Bucket": BUCKET, "Key": "k"}
    sums = {"ChecksumAlgorithm": "CRC32", "ChecksumType": kind}
    place = {**about, "UploadId": s3.create_multipart_upload(**about, **sums)["UploadId"]}
    done = []
    for number, content in enumerate(parts, start=1):
        answer = s3.upload_part(
            **place, PartNumber=number, Body=content, ChecksumAlgorithm="CRC32"
        )
        done.append({"PartNumber": number, **{n: answer[n] for n in ("ETag", "ChecksumCRC32")}})
    s3.complete_multipart_upload(**place, MultipartUpload={"Parts": done})
    digests = [zlib.crc32(content).to_bytes(4, "big") for content in parts]
    whole = encode(zlib.crc32(b"".join(parts)).to_bytes(4, "big"))
    composed = encode(zlib.crc32(b"".join(digests)).to_bytes(4, "big")) + "-2"
    head = s3.head_object(**about, ChecksumMode="ENABLED")
    assert head["ChecksumCRC32"] == (whole if kind == "FULL_OBJECT" else composed)
    assert head["ChecksumType"] == kind


def test_presigned_addresses_and_forms_work_without_keys(s3, session, address):
    client = make_client(session, address, signature_version="s3v4")
    url = client.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": "ü"})
    send(urllib.request.Request(url, data=b"put", method="PUT"))
    assert read(s3, "ü") == b"put"
    form = client.generate_presigned_post(
        BUCKET, "form/${filename}", Conditions=[["content-length-range", 1, 10]]
    )
    post(form, b"posted")
    assert read(s3, "form/name.txt") == b"posted"
    for changed in ({"key": "other"}, {"policy": form["fields"]["policy"][:-4] + "fQ=="}):
        assert refused({**form, "fields": {**form["fields"], **changed}}, b"posted") == 403
    assert refused(form, b"more than ten bytes") == 400


def send(request):
    with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
        return answer.read()


def post(form, content):
    fields = [
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in form["fields"].items()
    ]
    file = '--x\r\nContent-Disposition: form-data; name="file"; filename="name.txt"\r\n\r\n'
    body = "".join([*fields, file]).encode() + content + b"\r\n--x--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    send(urllib.request.Request(form["url"], data=body, headers=headers))


def refused(form, content):
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(form, content)
    with caught.value as answer:
        return answer.code


def test_of_two_uploads_of_one_key_at_once_one_is_stored_whole(s3, session, address):
    contents = [bytes([number]) * 6 * MIB for number in range(2)]
    for _ in range(5):
        threads = [
            threading.Thread(
                target=make_client(session, address).put_object,
                kwargs={"Bucket": BUCKET, "Key": "k", "Body": content},
            )
            for content in contents
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stored = read(s3, "k")
        assert stored in contents
        etag = s3.head_object(Bucket=BUCKET, Key="k")["ETag"]
        assert etag == f'"{hashlib.md5(stored).hexdigest()}"'


def test_other_keys_and_requests_without_a_signature_are_refused(s3, session, address):
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "guessed"}
    for name, code in (("key", "SignatureDoesNotMatch"), ("other", "InvalidAccessKeyId")):
        keys["aws_access_key_id"] = name
        other = session.client("s3", endpoint_url=address, region_name="us-east-1", **keys)
        assert code_of(other.list_objects_v2) == code
    with pytest.raises(urllib.error.HTTPError) as caught:
        send(urllib.request.Request(f"{address}/{BUCKET}"))
    with caught.value as answer:
        assert answer.code == 403
        assert b"<Code>AccessDenied</Code>" in answer.read()


def test_what_is_made_public_and_only_that_needs_no_signature(s3, address):
    s3.put_object(Bucket=BUCKET, Key="public", Body=b"for all", ACL="public-read")
    s3.put_object(Bucket=BUCKET, Key="private", Body=b"mine", ACL="bucket-owner-full-control")
    assert send(urllib.request.Request(f"{address}/{BUCKET}/public")) == b"for all"
    s3.put_object_acl(Bucket=BUCKET, Key="private", ACL="private")
    grants = s3.get_object_acl(Bucket=BUCKET, Key="public")["Grants"]
    assert [grant["Permission"] for grant in grants] == ["FULL_CONTROL", "READ"]
    for path, method in (("private", "GET"), ("public", "PUT"), ("public", "DELETE"), ("", "GET")):
        request = urllib.request.Request(f"{address}/{BUCKET}/{path}", method=method)
        with pytest.raises(urllib.error.HTTPError) as caught:
            send(request)
        with caught.value as answer:
            assert answer.code == 403
    s3.put_bucket_acl(Bucket=BUCKET, ACL="public-read")
    assert b"<Key>private</Key>" in send(urllib.request.Request(f"{address}/{BUCKET}"))


def test_what_would_be_silently_ignored_is_refused(s3):
    key = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": b"0" * 32}
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"first")
    for call, params in (
        (s3.put_object, {"Key": "k", "Body": b"more", "WriteOffsetBytes": 5}),
        (s3.put_object, {"Key": "k", "Body": b"secret", **key}),
        (s3.rename_object, {"Key": "k", "RenameSource": f"/{BUCKET}/other"}),
        (s3.put_bucket_versioning, {"VersioningConfiguration": {"Status": "Enabled"}}),
        (s3.put_bucket_policy, {"Policy": "{}"}),
        (s3.put_object, {"Key": "k", "Body": b"shared", "GrantRead": "id=another-account"}),
        (s3.put_object_acl, {"Key": "k", "GrantRead": "id=another-account"}),
        (s3.create_multipart_upload, {"Key": "k", "GrantFullControl": "id=another-account"}),
    ):
        assert code_of(call, **params) == "NotImplemented"
    for call in (s3.get_object, s3.delete_object):
        assert code_of(call, Key="k", VersionId="3sL4kqtJlcpXroDTDmJ") == "NoSuchVersion"
    assert read(s3, "k") == b"first"


def test_settings_that_nobody_made_are_not_set(s3):
    assert code_of(s3.get_bucket_policy) == "NoSuchBucketPolicy"
    assert code_of(s3.get_public_access_block) == "NoSuchPublicAccessBlockConfiguration"
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket=BUCKET)
    assert code_of(s3.get_bucket_ownership_controls) == "OwnershipControlsNotFoundError"


def test_a_bucket_keeps_its_region_and_refuses_acls_if_told_so(s3):
    place = {"LocationConstraint": "eu-west-1"}
    ours, other = "000000000000", "111111111111"
    s3.create_bucket(
        Bucket="own",
        CreateBucketConfiguration=place,
        ObjectOwnership="BucketOwnerEnforced",
    )
    try:
        assert s3.get_bucket_location(Bucket="own")["LocationConstraint"] == "eu-west-1"
        assert s3.head_bucket(Bucket="own", ExpectedBucketOwner=ours)["BucketRegion"]
        with pytest.raises(ClientError, match="AccessControlListNotSupported"):
            s3.put_object(Bucket="own", Key="k", Body=b"1", ACL="public-read")
        with pytest.raises(ClientError, match=r"AccessDenied.*000000000000"):
            s3.put_object(Bucket="own", Key="k", Body=b"1", ExpectedBucketOwner=other)
        s3.delete_bucket_ownership_controls(Bucket="own")
        s3.put_bucket_acl(Bucket="own", ACL="public-read")
        rules = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
        with pytest.raises(ClientError, match="InvalidBucketAclWithObjectOwnership"):
            s3.put_bucket_ownership_controls(Bucket="own", OwnershipControls=rules)
    finally:
        s3.delete_bucket(Bucket="own")


def test_the_encryption_that_was_asked_for_is_said_back(s3):
    asked = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "alias/mine"}
    parts = TransferConfig(multipart_threshold=MIB, multipart_chunksize=5 * MIB)
    s3.upload_fileobj(io.BytesIO(b"x" * 6 * MIB), BUCKET, "k", ExtraArgs=asked, Config=parts)
    assert asked.items() <= s3.head_object(Bucket=BUCKET, Key="k").items()
    assert asked.items() <= s3.put_object(Bucket=BUCKET, Key="k", Body=b"1", **asked).items()


def test_metadata_beyond_ascii_comes_back(s3):
    def add(params, **_):
        params["headers"] |= {"x-amz-meta-m": "Grüße"}

    s3.meta.events.register("before-call.s3.PutObject", add)
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"1")
    s3.meta.events.unregister("before-call.s3.PutObject", add)
    assert s3.head_object(Bucket=BUCKET, Key="k")["Metadata"] == {"m": "Grüße"}


def test_an_object_larger_than_the_disk_is_refused_before_its_body(s3, session, address):
    client = make_client(session, address, signature_version="s3v4")
    url = client.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": "k"})
    place = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(place.netloc, timeout=DEADLINE_SECONDS)
    connection.putrequest("PUT", f"{place.path}?{place.query}")
    connection.putheader("Content-Length", str(2**42))
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 507
    assert b"is full" in answer.read()
    connection.close()


PRESIGNED = (
    b"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-SignedHeaders=host&X-Amz-Expires=9&X-Amz-Date="
)
HOSTILE_HEADS = [
    b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
    b"PUT /bucket/k HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"GET / HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\nhello",
    b"GET / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"GET /%ff%fe/%00 HTTP/1.1\r\n\r\n",
    b"GET http://other/bucket?list-type=2 HTTP/1.1\r\n\r\n",
    b"GET /b?AWSAccessKeyId=key&Signature=%C3%A9&Expires=" + b"9" * 5000 + b" HTTP/1.1\r\n\r\n",
    b"GET /b?"
    + PRESIGNED
    + b"%s&X-Amz-Credential=key/%s/x/s3/aws4_request&X-Amz-Signature=%%C3%%A9"
    b" HTTP/1.1\r\nHost: x\r\n\r\n",
]


def test_what_is_not_a_valid_request_is_refused_and_the_server_keeps_answering(s3, address):
    now = datetime.now(UTC)
    for head in HOSTILE_HEADS:
        if PRESIGNED in head:
            head %= f"{now:%Y%m%dT%H%M%SZ}".encode(), f"{now:%Y%m%d}".encode()
        assert talk(address, head).split()[1] in (b"400", b"403"), head
    assert talk(address, b"GET /" + b"x" * 70_000) == b""
    assert s3.list_buckets()["Buckets"]


def talk(address, sent):
    place = urllib.parse.urlsplit(address)
    with socket.create_connection((place.hostname, place.port), DEADLINE_SECONDS) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        return client.recv(100)


def test_numbers_times_and_names_that_no_client_sends_are_no_internal_errors(s3):
    place = {"Bucket": BUCKET, "Key": "k"}
    s3.put_object(**place, Body=b"content")
    url = s3.generate_presigned_url("get_object", Params=place)
    for header, value in (
        ("Range", f"bytes={'9' * 5000}-"),
        ("If-Modified-Since", "Mon, 01 Jan 0001 00:00:00 GMT"),
    ):
        request = urllib.request.Request(url, headers={header: value})
        with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
            assert answer.read() == b"content"
    source = {"Bucket": "nul\0x", "Key": "k"}
    assert code_of(s3.copy_object, Key="copy", CopySource=source) == "NoSuchBucket"


def test_a_request_whose_head_comes_too_slowly_is_closed():
    client, server = socket.socketpair()
    stream = http_server.Stream(server)
    with client, server:
        client.sendall(b"GET / HT")
        client.shutdown(socket.SHUT_WR)
        with pytest.raises(http_server.Disconnected, match="does not come"):
            stream.read_until(b"\r\n\r\n", 1000, seconds=0)
