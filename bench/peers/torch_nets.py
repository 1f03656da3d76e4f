"""The nets of training.py and inference.py in PyTorch, with the shapes of Caffe's. Each returns a list of pairs:
scores and the weight of their loss. In evaluation there is one pair."""
from torch import cat, nn


class Net(nn.Module):
    """Runs `body`, which is one head."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return [(self.body(x), 1.0)]


def relu(layer):
    return [layer, nn.ReLU(inplace=True)]


def pool():
    return nn.MaxPool2d(3, 2, ceil_mode=True)


def alexnet():
    def norm():
        return nn.LocalResponseNorm(5, 1e-4, 0.75)

    return Net(nn.Sequential(
        *relu(nn.Conv2d(3, 96, 11, 4)), norm(), pool(), *relu(nn.Conv2d(96, 256, 5, padding=2, groups=2)), norm(),
        pool(), *relu(nn.Conv2d(256, 384, 3, padding=1)), *relu(nn.Conv2d(384, 384, 3, padding=1, groups=2)),
        *relu(nn.Conv2d(384, 256, 3, padding=1, groups=2)), pool(), nn.Flatten(), *relu(nn.Linear(9216, 4096)),
        nn.Dropout(), *relu(nn.Linear(4096, 4096)), nn.Dropout(), nn.Linear(4096, 1000)))


def c3d():
    def conv(inputs, outputs):
        return relu(nn.Conv3d(inputs, outputs, 3, padding=1))

    def pool3d():
        return nn.MaxPool3d(2, ceil_mode=True)

    return Net(nn.Sequential(
        *conv(3, 64), nn.MaxPool3d((1, 2, 2), ceil_mode=True), *conv(64, 128), pool3d(), *conv(128, 256),
        *conv(256, 256), pool3d(), *conv(256, 512), *conv(512, 512), pool3d(), *conv(512, 512), *conv(512, 512), pool3d(),
        nn.Flatten(), *relu(nn.Linear(8192, 4096)), nn.Dropout(), *relu(nn.Linear(4096, 4096)), nn.Dropout(),
        nn.Linear(4096, 101)))


class Inception(nn.Module):
    def __init__(self, inputs, ones, reduce3, threes, reduce5, fives, projected):
        super().__init__()
        self.parts = nn.ModuleList([
            nn.Sequential(*relu(nn.Conv2d(inputs, ones, 1))),
            nn.Sequential(*relu(nn.Conv2d(inputs, reduce3, 1)), *relu(nn.Conv2d(reduce3, threes, 3, padding=1))),
            nn.Sequential(*relu(nn.Conv2d(inputs, reduce5, 1)), *relu(nn.Conv2d(reduce5, fives, 5, padding=2))),
            nn.Sequential(nn.MaxPool2d(3, 1, padding=1), *relu(nn.Conv2d(inputs, projected, 1)))])

    def forward(self, x):
        return cat([part(x) for part in self.parts], 1)


class GoogLeNet(nn.Module):
    def __init__(self):
        super().__init__()

        def norm():
            return nn.LocalResponseNorm(5, 1e-4, 0.75)

        def head(inputs):
            return nn.Sequential(nn.AvgPool2d(5, 3, ceil_mode=True), *relu(nn.Conv2d(inputs, 128, 1)), nn.Flatten(),
                                 *relu(nn.Linear(2048, 1024)), nn.Dropout(0.7), nn.Linear(1024, 1000))

        self.start = nn.Sequential(
            *relu(nn.Conv2d(3, 64, 7, 2, 3)), pool(), norm(), *relu(nn.Conv2d(64, 64, 1)),
            *relu(nn.Conv2d(64, 192, 3, padding=1)), norm(), pool(), Inception(192, 64, 96, 128, 16, 32, 32),
            Inception(256, 128, 128, 192, 32, 96, 64), pool(), Inception(480, 192, 96, 208, 16, 48, 64))
        self.middle = nn.Sequential(Inception(512, 160, 112, 224, 24, 64, 64), Inception(512, 128, 128, 256, 24, 64, 64),
                                    Inception(512, 112, 144, 288, 32, 64, 64))
        self.end = nn.Sequential(
            Inception(528, 256, 160, 320, 32, 128, 128), pool(), Inception(832, 256, 160, 320, 32, 128, 128),
            Inception(832, 384, 192, 384, 48, 128, 128), nn.AvgPool2d(7), nn.Flatten(), nn.Dropout(0.4),
            nn.Linear(1024, 1000))
        self.first, self.second = head(512), head(528)

    def forward(self, x):
        start = self.start(x)
        middle = self.middle(start)
        if not self.training:
            return [(self.end(middle), 1.0)]
        return [(self.first(start), 0.3), (self.second(middle), 0.3), (self.end(middle), 1.0)]


def googlenet():
    return GoogLeNet()


class Fire(nn.Module):
    def __init__(self, inputs, squeezed, expanded):
        super().__init__()
        self.squeeze = nn.Sequential(*relu(nn.Conv2d(inputs, squeezed, 1)))
        self.one = nn.Sequential(*relu(nn.Conv2d(squeezed, expanded, 1)))
        self.three = nn.Sequential(*relu(nn.Conv2d(squeezed, expanded, 3, padding=1)))

    def forward(self, x):
        x = self.squeeze(x)
        return cat([self.one(x), self.three(x)], 1)


def squeezenet_v1_1():
    return Net(nn.Sequential(
        *relu(nn.Conv2d(3, 64, 3, 2)), pool(), Fire(64, 16, 64), Fire(128, 16, 64), pool(), Fire(128, 32, 128),
        Fire(256, 32, 128), pool(), Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
        nn.Dropout(), *relu(nn.Conv2d(512, 1000, 1)), nn.AdaptiveAvgPool2d(1), nn.Flatten()))


class Bottleneck(nn.Module):
    def __init__(self, inputs, inner, stride):
        super().__init__()
        outputs = 4 * inner

        def conv(*shape, **more):
            return [nn.Conv2d(*shape, bias=False, **more), nn.BatchNorm2d(shape[1])]

        self.body = nn.Sequential(*conv(inputs, inner, 1, stride), nn.ReLU(inplace=True),
                                  *conv(inner, inner, 3, padding=1), nn.ReLU(inplace=True), *conv(inner, outputs, 1))
        self.short = nn.Sequential(*conv(inputs, outputs, 1, stride)) if inputs != outputs else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.body(x) + self.short(x))


def resnet50():
    layers, inputs = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), pool()], 64
    for group, count in enumerate((3, 4, 6, 3)):
        for block in range(count):
            layers.append(Bottleneck(inputs, 64 << group, 2 if group > 0 and block == 0 else 1))
            inputs = 256 << group
    return Net(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)))


def normed(inputs, outputs, kernel=1, stride=1, groups=1):
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs)]


def mobilenet_v1():
    layers, inputs = [*normed(3, 32, 3, 2), nn.ReLU(inplace=True)], 32
    for outputs, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2),
                            (1024, 1)):
        layers += [*normed(inputs, inputs, 3, stride, inputs), nn.ReLU(inplace=True), *normed(inputs, outputs),
                   nn.ReLU(inplace=True)]
        inputs = outputs
    return Net(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000)))


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, factor):
        super().__init__()
        inner = inputs * factor
        expand = [*normed(inputs, inner), nn.ReLU6(inplace=True)] if factor > 1 else []
        self.body = nn.Sequential(*expand, *normed(inner, inner, 3, stride, inner), nn.ReLU6(inplace=True),
                                  *normed(inner, outputs))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        return self.body(x) + x if self.adds else self.body(x)


def mobilenet_v2():
    layers, inputs = [*normed(3, 32, 3, 2), nn.ReLU6(inplace=True)], 32
    for factor, outputs, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                           (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(count):
            layers.append(InvertedResidual(inputs, outputs, 1 if block else stride, factor))
            inputs = outputs
    return Net(nn.Sequential(*layers, *normed(inputs, 1280), nn.ReLU6(inplace=True), nn.AdaptiveAvgPool2d(1),
                             nn.Flatten(), nn.Linear(1280, 1000)))
