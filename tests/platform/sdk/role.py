"""What nearly every notebook does first, with either SDK."""

import json

try:
    from sagemaker import get_execution_role
except ImportError:
    from sagemaker.core.helper.session_helper import get_execution_role

print(json.dumps({"role": get_execution_role()}))
