"""A notebook's first cell: notebook.py ROOT."""

import json
import sys

import boto3

import stoker.notebook

local = stoker.notebook.session(sys.argv[1])
session = local.sagemaker_session()
try:
    from sagemaker import get_execution_role
except ImportError:
    from sagemaker.core.helper.session_helper import get_execution_role
roles = [get_execution_role()]
try:  # SDK v2's sagemaker.modules is made of it
    from sagemaker_core.helper import session_helper as core
except ImportError:
    pass
else:
    roles.append(core.get_execution_role())
uploaded = session.upload_data(__file__, bucket=session.default_bucket(), key_prefix="notebook")
# Plain boto3 reaches the platform, too.
listed = boto3.client("s3").list_objects_v2(Bucket=local.bucket, Prefix="notebook/")
result = {"uploaded": uploaded, "keys": [entry["Key"] for entry in listed["Contents"]]}
print(
    json.dumps(
        {
            **result,
            "bucket": session.default_bucket(),
            "engine": local.engine,
            "roles": roles,
            "account": session.account_id(),
        }
    )
)
