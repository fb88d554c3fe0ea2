"""As in AWS's examples: paths of the container, scikit-learn and pandas."""

import argparse

import pandas as pd
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--share", type=float)
share = parser.parse_args().share
people = pd.read_csv("/opt/ml/processing/input/people.csv")
train, test = train_test_split(people, test_size=share, stratify=people["label"], random_state=0)
train.to_csv("/opt/ml/processing/train/train.csv", index=False)
test.to_csv("/opt/ml/processing/test/test.csv", index=False)
print(f"{len(train)} rows for training", flush=True)
with open("/opt/ml/output/message", "w") as message:
    message.write(f"{len(people)} rows")
