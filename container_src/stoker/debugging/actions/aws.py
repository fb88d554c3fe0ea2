"""The two things that go through AWS: stopping a job of several hosts, and SNS."""

from __future__ import annotations

import json

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from stoker.debugging.actions.notice import Notice
from stoker.errors import ActionFailed

TOPIC = "SMDebugRules"
"""The service's own: a subscription that was confirmed there keeps working."""

# SNS refuses longer subjects.
_SUBJECT_LIMIT = 100
_CONFIG = Config(
    connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 2, "mode": "standard"}
)
# What each kind of receiver is called by SNS: the protocol, and the key of the filter.
_PROTOCOLS = {"email": ("email", "email"), "sms": ("sms", "phone_num")}


def stop_training_job(name: str, *, region: str) -> None:
    """Stops a job on all its hosts: each gets SIGTERM, and SIGKILL 120 s later.

    Raises:
        ActionFailed: it could not be asked, or refuses.
    """
    try:
        boto3.client("sagemaker", region_name=region or None, config=_CONFIG).stop_training_job(
            TrainingJobName=name
        )
    except (BotoCoreError, ClientError) as error:
        raise ActionFailed(
            f"StopTrainingJob: {error}", fix="the job's role needs sagemaker:StopTrainingJob"
        ) from None


def publish(notice: Notice, *, kind: str, target: str, region: str) -> str:
    """Sends e-mail or SMS as the service does: one topic, each receiver with a filter.

    Returns:
        What was done. A new address has to confirm its subscription before anything arrives.

    Raises:
        ActionFailed: no region, no credentials, or no permission.
    """
    protocol, key = _PROTOCOLS[kind]
    try:
        sns = boto3.client("sns", region_name=region or None, config=_CONFIG)
        topic = sns.create_topic(Name=TOPIC)["TopicArn"]  # the same one if it is there
        subscription = sns.subscribe(
            TopicArn=topic,
            Protocol=protocol,
            Endpoint=target,
            # All receivers share the topic; without a filter each would get the messages of all
            # others.
            Attributes={"FilterPolicy": json.dumps({key: [target]})},
        )
        sns.publish(
            TopicArn=topic,
            Subject=notice.subject[:_SUBJECT_LIMIT],
            Message=notice.text,
            MessageAttributes={key: {"DataType": "String", "StringValue": target}},
        )
    except (BotoCoreError, ClientError) as error:
        raise ActionFailed(
            f"SNS: {error}",
            fix="the job's role needs sns:CreateTopic, sns:Subscribe and sns:Publish; or set "
            "STOKER_SMTP for e-mail",
        ) from None
    is_new = subscription.get("SubscriptionArn") in (None, "pending confirmation")
    return "published by SNS" + (" (the address has yet to confirm it)" if is_new else "")
