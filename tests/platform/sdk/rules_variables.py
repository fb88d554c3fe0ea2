"""The rules of an SDK as variables for the cloud: rules_variables.py v2|v3 SOURCE."""

import json
import sys

import stoker.notebook

sdk, source = sys.argv[1:]
if sdk == "v2":
    from sagemaker.debugger import CollectionConfig, Rule, rule_configs
else:
    from sagemaker.core.debugger import CollectionConfig, Rule, rule_configs

rules = [
    Rule.sagemaker(
        rule_configs.vanishing_gradient(),
        actions=rule_configs.ActionList(
            rule_configs.StopTraining(), rule_configs.Email("me@example.com")
        ),
    ),
    Rule.sagemaker(
        rule_configs.loss_not_decreasing(),
        rule_parameters={"num_steps": "5"},
        collections_to_save=[CollectionConfig("losses", {"save_interval": "2"})],
    ),
    Rule.sagemaker(rule_configs.dead_relu()),
    Rule.custom(
        name="Mine",
        image_uri="any",
        instance_type="ml.t3.medium",
        volume_size_in_gb=30,
        source=f"{source}/my_rules.py",
        rule_to_invoke="CustomGradientRule",
    ),
]
print(json.dumps(stoker.notebook.rules_environment(rules, source_dir=source)))
