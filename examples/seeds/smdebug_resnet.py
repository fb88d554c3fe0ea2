"""Trains a small ResNet to tell two kinds of images apart, watched by smdebug's own hook.

The hook is made and told of model and loss by hand, as scripts for SageMaker Debugger did it; what
it saves is for the job to say (debughookconfig.json, the estimator's `debugger_hook_config=`).
"""

import argparse
import os

import smdebug.pytorch as smd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, channels_in, channels_out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.relu2 = nn.ReLU()
        self.shortcut = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False),
                nn.BatchNorm2d(channels_out),
            )

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        return self.relu2(out + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, widths=(8, 16, 32), classes=2):
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.relu = nn.ReLU()
        self.layer1 = Block(widths[0], widths[0])
        self.layer2 = Block(widths[0], widths[1], stride=2)
        self.layer3 = Block(widths[1], widths[2], stride=2)
        self.fc = nn.Linear(widths[-1], classes)

    def forward(self, x):
        out = self.layer1(self.relu(self.bn1(self.conv1(x))))
        return self.fc(self.layer3(self.layer2(out)).mean(dim=(2, 3)))


def make_images(count, size=32):
    """Stripes, horizontal or vertical, of any colour and width, with noise."""
    labels = torch.randint(2, (count,))
    along = torch.arange(size) * (0.3 + 0.5 * torch.rand(count, 1)) + 6 * torch.rand(count, 1)
    stripes = along.sin()[:, None, :].expand(-1, size, -1)
    stripes = torch.where(labels[:, None, None] == 0, stripes, stripes.transpose(1, 2))
    images = stripes[:, None] * torch.rand(count, 3, 1, 1) + 0.2 * torch.randn(
        count, 3, size, size
    )
    return TensorDataset(images, labels)


def train(model, loader, criterion, optimizer, hook):
    model.train()
    hook.set_mode(smd.modes.TRAIN)
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
    return loss.item()


def evaluate(model, loader, criterion, hook):
    model.eval()
    hook.set_mode(smd.modes.EVAL)
    right = 0
    with torch.no_grad():
        for images, labels in loader:
            scores = model(images)
            criterion(scores, labels)
            right += (scores.argmax(dim=1) == labels).sum().item()
    return right / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--model-dir", default=os.environ.get("SM_MODEL_DIR", "."))
    args = parser.parse_args()

    torch.manual_seed(0)
    training = DataLoader(make_images(args.images), args.batch_size, shuffle=True)
    testing = DataLoader(make_images(args.images // 4), args.batch_size)
    model = ResNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

    hook = smd.Hook.create_from_json_file()
    hook.register_module(model)
    hook.register_loss(criterion)

    for epoch in range(1, args.epochs + 1):
        loss = train(model, training, criterion, optimizer, hook)
        accuracy = evaluate(model, testing, criterion, hook)
        hook.save_scalar("accuracy", accuracy, sm_metric=True)
        print(f"epoch {epoch} loss={loss:.4f} accuracy={accuracy:.3f}", flush=True)

    torch.save(model.state_dict(), os.path.join(args.model_dir, "model.pt"))


if __name__ == "__main__":
    main()
