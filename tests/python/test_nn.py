"""nn: what modules print, raise, save and compute. Expected values were observed on PyTorch 2.13."""
import copy
import math
import pickle
from collections import OrderedDict

import pytest

import taper as torch

nn = torch.nn
F = torch.nn.functional


def public(text):
    """Text with the package's own name replaced by PyTorch's."""
    return text.replace(torch.__name__ + ".", "torch.")


def bits(tensor, count=3):
    return [value.hex() for value in tensor.detach().double().flatten()[:count].tolist()]


REPRS = [
    ('Identity(3,a=2)', 'Identity()'),
    ('Linear(3,4)', 'Linear(in_features=3, out_features=4, bias=True)'),
    ('Linear(3,4,bias=False)', 'Linear(in_features=3, out_features=4, bias=False)'),
    ('Linear(0,4)', 'Linear(in_features=0, out_features=4, bias=True)'),
    ('Bilinear(2,3,4)', 'Bilinear(in1_features=2, in2_features=3, out_features=4, bias=True)'),
    ('Bilinear(2,3,4,bias=False)', 'Bilinear(in1_features=2, in2_features=3, out_features=4, bias=False)'),
    ('Conv1d(2,4,3)', 'Conv1d(2, 4, kernel_size=(3,), stride=(1,))'),
    (
        "Conv1d(2,4,3,padding='same',dilation=2)",
        'Conv1d(2, 4, kernel_size=(3,), stride=(1,), padding=same, dilation=(2,))',
    ),
    ("Conv1d(2,4,3,padding='valid')", 'Conv1d(2, 4, kernel_size=(3,), stride=(1,), padding=valid)'),
    ('Conv2d(2,4,3,2,1)', 'Conv2d(2, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))'),
    (
        'Conv2d(4,4,(3,5),stride=(2,1),padding=(1,2),dilation=(1,2),groups=2,bias=False)',
        'Conv2d(4, 4, kernel_size=(3, 5), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2, bias=False)',
    ),
    (
        "Conv2d(2,4,3,padding=1,padding_mode='reflect')",
        'Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), padding_mode=reflect)',
    ),
    (
        "Conv2d(2,4,3,padding='same',padding_mode='circular')",
        'Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1), padding=same, padding_mode=circular)',
    ),
    ('Conv3d(2,4,2)', 'Conv3d(2, 4, kernel_size=(2, 2, 2), stride=(1, 1, 1))'),
    ('Conv2d(0,3,2)', 'Conv2d(0, 3, kernel_size=(2, 2), stride=(1, 1))'),
    ('ConvTranspose1d(2,4,3)', 'ConvTranspose1d(2, 4, kernel_size=(3,), stride=(1,))'),
    (
        'ConvTranspose2d(2,4,3,stride=2,padding=1,output_padding=1)',
        'ConvTranspose2d(2, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), output_padding=(1, 1))',
    ),
    ('ConvTranspose3d(2,4,2)', 'ConvTranspose3d(2, 4, kernel_size=(2, 2, 2), stride=(1, 1, 1))'),
    (
        'ConvTranspose2d(2,4,(2,3),dilation=2,groups=2)',
        'ConvTranspose2d(2, 4, kernel_size=(2, 3), stride=(1, 1), dilation=(2, 2), groups=2)',
    ),
    ('BatchNorm1d(3)', 'BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)'),
    (
        'BatchNorm1d(3,affine=False)',
        'BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=True)',
    ),
    (
        'BatchNorm1d(3,bias=False)',
        'BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=False, track_running_stats=True)',
    ),
    (
        'BatchNorm2d(2,eps=1e-3,momentum=None)',
        'BatchNorm2d(2, eps=0.001, momentum=None, affine=True, bias=True, track_running_stats=True)',
    ),
    (
        'BatchNorm2d(2,track_running_stats=False)',
        'BatchNorm2d(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=False)',
    ),
    ('BatchNorm3d(2)', 'BatchNorm3d(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)'),
    (
        'SyncBatchNorm(3)',
        'SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)',
    ),
    (
        'InstanceNorm1d(3)',
        'InstanceNorm1d(3, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=False)',
    ),
    (
        'InstanceNorm2d(2,affine=True,track_running_stats=True)',
        'InstanceNorm2d(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)',
    ),
    (
        'InstanceNorm3d(2)',
        'InstanceNorm3d(2, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=False)',
    ),
    ('LayerNorm(3)', 'LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)'),
    ('LayerNorm((2,3),eps=1e-3)', 'LayerNorm((2, 3), eps=0.001, elementwise_affine=True, bias=True)'),
    ('LayerNorm(3,bias=False)', 'LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=False)'),
    ('LayerNorm([3],elementwise_affine=False)', 'LayerNorm((3,), eps=1e-05, elementwise_affine=False, bias=False)'),
    ('GroupNorm(2,4)', 'GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)'),
    ('GroupNorm(2,4,affine=False)', 'GroupNorm(2, 4, eps=1e-05, affine=False, bias=False)'),
    ('GroupNorm(2,4,bias=False)', 'GroupNorm(2, 4, eps=1e-05, affine=True, bias=False)'),
    ('RMSNorm(3)', 'RMSNorm((3,), eps=None, elementwise_affine=True)'),
    ('RMSNorm((2,3),eps=1e-3,elementwise_affine=False)', 'RMSNorm((2, 3), eps=0.001, elementwise_affine=False)'),
    ('LocalResponseNorm(2)', 'LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)'),
    ('Embedding(5,3)', 'Embedding(5, 3)'),
    ('Embedding(5,3,padding_idx=-1)', 'Embedding(5, 3, padding_idx=4)'),
    (
        'Embedding(5,3,padding_idx=1,max_norm=2.,norm_type=1.,scale_grad_by_freq=True,sparse=True)',
        'Embedding(5, 3, padding_idx=1, max_norm=2.0, norm_type=1.0, scale_grad_by_freq=True, sparse=True)',
    ),
    ('EmbeddingBag(5,3)', "EmbeddingBag(5, 3, mode='mean')"),
    (
        "EmbeddingBag(5,3,mode='sum',padding_idx=0,max_norm=1.)",
        "EmbeddingBag(5, 3, max_norm=1.0, mode='sum', padding_idx=0)",
    ),
    ('Dropout()', 'Dropout(p=0.5, inplace=False)'),
    ('Dropout(.3,True)', 'Dropout(p=0.3, inplace=True)'),
    ('Dropout1d()', 'Dropout1d(p=0.5, inplace=False)'),
    ('Dropout2d()', 'Dropout2d(p=0.5, inplace=False)'),
    ('Dropout3d()', 'Dropout3d(p=0.5, inplace=False)'),
    ('AlphaDropout()', 'AlphaDropout(p=0.5, inplace=False)'),
    ('FeatureAlphaDropout()', 'FeatureAlphaDropout(p=0.5, inplace=False)'),
    ('MaxPool1d(2)', 'MaxPool1d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)'),
    ('MaxPool2d(3,2,1)', 'MaxPool2d(kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=False)'),
    (
        'MaxPool2d((2,3),return_indices=True,ceil_mode=True)',
        'MaxPool2d(kernel_size=(2, 3), stride=(2, 3), padding=0, dilation=1, ceil_mode=True)',
    ),
    ('MaxPool3d(2)', 'MaxPool3d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)'),
    ('MaxUnpool1d(2)', 'MaxUnpool1d(kernel_size=(2,), stride=(2,), padding=(0,))'),
    ('MaxUnpool2d(2,1)', 'MaxUnpool2d(kernel_size=(2, 2), stride=(1, 1), padding=(0, 0))'),
    ('MaxUnpool3d(2)', 'MaxUnpool3d(kernel_size=(2, 2, 2), stride=(2, 2, 2), padding=(0, 0, 0))'),
    ('AvgPool1d(2)', 'AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))'),
    ('AvgPool2d(3,2)', 'AvgPool2d(kernel_size=3, stride=2, padding=0)'),
    ('AvgPool2d(2,divisor_override=3)', 'AvgPool2d(kernel_size=2, stride=2, padding=0)'),
    ('AvgPool3d(2)', 'AvgPool3d(kernel_size=2, stride=2, padding=0)'),
    ('AdaptiveAvgPool1d(2)', 'AdaptiveAvgPool1d(output_size=2)'),
    ('AdaptiveAvgPool2d((2,None))', 'AdaptiveAvgPool2d(output_size=(2, None))'),
    ('AdaptiveAvgPool3d(1)', 'AdaptiveAvgPool3d(output_size=1)'),
    ('AdaptiveMaxPool1d(2)', 'AdaptiveMaxPool1d(output_size=2)'),
    ('AdaptiveMaxPool2d(2,return_indices=True)', 'AdaptiveMaxPool2d(output_size=2)'),
    ('AdaptiveMaxPool3d(1)', 'AdaptiveMaxPool3d(output_size=1)'),
    ('LPPool1d(2,3)', 'LPPool1d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)'),
    ('LPPool2d(2,3,stride=1)', 'LPPool2d(norm_type=2, kernel_size=3, stride=1, ceil_mode=False)'),
    ('LPPool3d(2,2)', 'LPPool3d(norm_type=2, kernel_size=2, stride=None, ceil_mode=False)'),
    ('FractionalMaxPool2d(2,output_size=2)', 'FractionalMaxPool2d()'),
    ('FractionalMaxPool3d(2,output_size=2)', 'FractionalMaxPool3d()'),
    ('Flatten()', 'Flatten(start_dim=1, end_dim=-1)'),
    ('Flatten(0,1)', 'Flatten(start_dim=0, end_dim=1)'),
    ('Unflatten(1,(2,2))', 'Unflatten(dim=1, unflattened_size=(2, 2))'),
    ('ReLU()', 'ReLU()'),
    ('ReLU(True)', 'ReLU(inplace=True)'),
    ('GELU()', "GELU(approximate='none')"),
    ("GELU('tanh')", "GELU(approximate='tanh')"),
    ('SiLU()', 'SiLU()'),
    ('SiLU(True)', 'SiLU(inplace=True)'),
    ('Sigmoid()', 'Sigmoid()'),
    ('Tanh()', 'Tanh()'),
    ('LeakyReLU()', 'LeakyReLU(negative_slope=0.01)'),
    ('LeakyReLU(.2,True)', 'LeakyReLU(negative_slope=0.2, inplace=True)'),
    ('ELU()', 'ELU(alpha=1.0)'),
    ('ELU(.5,True)', 'ELU(alpha=0.5, inplace=True)'),
    ('CELU()', 'CELU(alpha=1.0)'),
    ('SELU()', 'SELU()'),
    ('Softplus()', 'Softplus(beta=1.0, threshold=20.0)'),
    ('Softplus(2.,10.)', 'Softplus(beta=2.0, threshold=10.0)'),
    ('Softmax()', 'Softmax(dim=None)'),
    ('Softmax(1)', 'Softmax(dim=1)'),
    ('Softmax(dim=-1)', 'Softmax(dim=-1)'),
    ('LogSoftmax(1)', 'LogSoftmax(dim=1)'),
    ('Softmin(1)', 'Softmin(dim=1)'),
    ('Softmax2d()', 'Softmax2d()'),
    ('Hardtanh()', 'Hardtanh(min_val=-1.0, max_val=1.0)'),
    ('Hardtanh(-2,2,True)', 'Hardtanh(min_val=-2, max_val=2, inplace=True)'),
    ('Hardtanh(min_value=-3)', 'Hardtanh(min_val=-3, max_val=1.0)'),
    ('ReLU6()', 'ReLU6()'),
    ('ReLU6(True)', 'ReLU6(inplace=True)'),
    ('Hardswish()', 'Hardswish()'),
    ('Hardsigmoid()', 'Hardsigmoid()'),
    ('Mish()', 'Mish()'),
    ('PReLU()', 'PReLU(num_parameters=1)'),
    ('PReLU(3,.1)', 'PReLU(num_parameters=3)'),
    ('LogSigmoid()', 'LogSigmoid()'),
    ('RReLU()', 'RReLU(lower=0.125, upper=0.3333333333333333)'),
    ('Threshold(1,2)', 'Threshold(threshold=1, value=2)'),
    ('Threshold(1,2,True)', 'Threshold(threshold=1, value=2, inplace=True)'),
    ('GLU()', 'GLU(dim=-1)'),
    ('Hardshrink()', 'Hardshrink(0.5)'),
    ('Softshrink()', 'Softshrink(0.5)'),
    ('Softsign()', 'Softsign()'),
    ('Tanhshrink()', 'Tanhshrink()'),
    ('MSELoss()', 'MSELoss()'),
    ("L1Loss(reduction='sum')", 'L1Loss()'),
    ('SmoothL1Loss(beta=.5)', 'SmoothL1Loss()'),
    ('HuberLoss()', 'HuberLoss()'),
    ('NLLLoss()', 'NLLLoss()'),
    ('CrossEntropyLoss()', 'CrossEntropyLoss()'),
    ('BCELoss()', 'BCELoss()'),
    ('BCEWithLogitsLoss(pos_weight=torch.ones(3))', 'BCEWithLogitsLoss()'),
    ('KLDivLoss()', 'KLDivLoss()'),
    ('CTCLoss()', 'CTCLoss()'),
    ('PoissonNLLLoss()', 'PoissonNLLLoss()'),
    ('GaussianNLLLoss()', 'GaussianNLLLoss()'),
    ('TripletMarginLoss()', 'TripletMarginLoss()'),
    (
        'TripletMarginWithDistanceLoss()',
        'TripletMarginWithDistanceLoss(\n  (distance_function): PairwiseDistance()\n)',
    ),
    ('MarginRankingLoss()', 'MarginRankingLoss()'),
    ('HingeEmbeddingLoss()', 'HingeEmbeddingLoss()'),
    ('CosineEmbeddingLoss()', 'CosineEmbeddingLoss()'),
    ('MultiMarginLoss()', 'MultiMarginLoss()'),
    ('MultiLabelMarginLoss()', 'MultiLabelMarginLoss()'),
    ('MultiLabelSoftMarginLoss()', 'MultiLabelSoftMarginLoss()'),
    ('SoftMarginLoss()', 'SoftMarginLoss()'),
    ('NLLLoss2d()', 'NLLLoss2d()'),
    ('CircularPad1d(1)', 'CircularPad1d((1, 1))'),
    ('CircularPad2d((1,1,1,1))', 'CircularPad2d((1, 1, 1, 1))'),
    ('ConstantPad1d(2,3.5)', 'ConstantPad1d(padding=(2, 2), value=3.5)'),
    ('ConstantPad2d(1,0)', 'ConstantPad2d(padding=(1, 1, 1, 1), value=0)'),
    ('ConstantPad3d(1,2)', 'ConstantPad3d(padding=(1, 1, 1, 1, 1, 1), value=2)'),
    ('ReflectionPad1d(1)', 'ReflectionPad1d((1, 1))'),
    ('ReflectionPad2d(1)', 'ReflectionPad2d((1, 1, 1, 1))'),
    ('ReflectionPad3d(1)', 'ReflectionPad3d((1, 1, 1, 1, 1, 1))'),
    ('ReplicationPad1d(1)', 'ReplicationPad1d((1, 1))'),
    ('ReplicationPad2d(1)', 'ReplicationPad2d((1, 1, 1, 1))'),
    ('ReplicationPad3d(1)', 'ReplicationPad3d((1, 1, 1, 1, 1, 1))'),
    ('ZeroPad1d(1)', 'ZeroPad1d((1, 1))'),
    ('ZeroPad2d((1,0,0,1))', 'ZeroPad2d((1, 0, 0, 1))'),
    ('ZeroPad3d(1)', 'ZeroPad3d((1, 1, 1, 1, 1, 1))'),
    ('PairwiseDistance()', 'PairwiseDistance()'),
    ('CosineSimilarity()', 'CosineSimilarity()'),
    ('PixelShuffle(2)', 'PixelShuffle(upscale_factor=2)'),
    ('PixelUnshuffle(2)', 'PixelUnshuffle(downscale_factor=2)'),
    ('ChannelShuffle(2)', 'ChannelShuffle(groups=2)'),
    ('Upsample(scale_factor=2)', "Upsample(scale_factor=2.0, mode='nearest')"),
    ('Upsample(size=4)', "Upsample(size=4, mode='nearest')"),
    ("Upsample(scale_factor=(2,3),mode='bilinear')", "Upsample(scale_factor=(2.0, 3.0), mode='bilinear')"),
    ('UpsamplingNearest2d(4)', "UpsamplingNearest2d(size=4, mode='nearest')"),
    ('UpsamplingBilinear2d(scale_factor=2)', "UpsamplingBilinear2d(scale_factor=2.0, mode='bilinear')"),
    ('Fold((4,5),2)', 'Fold(output_size=(4, 5), kernel_size=2, dilation=1, padding=0, stride=1)'),
    ('Unfold(2)', 'Unfold(kernel_size=2, dilation=1, padding=0, stride=1)'),
    ('LazyLinear(3)', 'LazyLinear(in_features=0, out_features=3, bias=True)'),
    ('LazyConv1d(2,3)', 'LazyConv1d(0, 2, kernel_size=(3,), stride=(1,))'),
    ('LazyConv3d(2,3,groups=2)', 'LazyConv3d(0, 2, kernel_size=(3, 3, 3), stride=(1, 1, 1), groups=2)'),
    ('LazyConvTranspose1d(2,3)', 'LazyConvTranspose1d(0, 2, kernel_size=(3,), stride=(1,))'),
    ('LazyConvTranspose3d(2,3)', 'LazyConvTranspose3d(0, 2, kernel_size=(3, 3, 3), stride=(1, 1, 1))'),
    (
        'LazyBatchNorm1d()',
        'LazyBatchNorm1d(0, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)',
    ),
    (
        'LazyBatchNorm2d(affine=False)',
        'LazyBatchNorm2d(0, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=True)',
    ),
    (
        'LazyBatchNorm3d(bias=False)',
        'LazyBatchNorm3d(0, eps=1e-05, momentum=0.1, affine=True, bias=False, track_running_stats=True)',
    ),
    (
        'LazyInstanceNorm1d()',
        'LazyInstanceNorm1d(0, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)',
    ),
    (
        'LazyInstanceNorm2d()',
        'LazyInstanceNorm2d(0, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)',
    ),
    (
        'LazyInstanceNorm3d()',
        'LazyInstanceNorm3d(0, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)',
    ),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code, expected", REPRS)
def test_repr(code, expected):
    assert public(repr(eval("nn." + code))) == expected


ERRORS = [
    ('nn.Linear(3, 4)([1, 2, 3])', 'TypeError', "linear(): argument 'input' (position 1) must be Tensor, not list"),
    ('nn.Linear(3)', 'TypeError', "Linear.__init__() missing 1 required positional argument: 'out_features'"),
    ('nn.Conv2d(3, 8, 3, groups=2)', 'ValueError', 'in_channels must be divisible by groups'),
    ('nn.Conv2d(4, 7, 3, groups=2)', 'ValueError', 'out_channels must be divisible by groups'),
    (
        'nn.Conv2d(3, 8, 3, padding="same", stride=2)',
        'ValueError',
        "padding='same' is not supported for strided convolutions",
    ),
    (
        'nn.ConvTranspose2d(2, 4, 3, padding_mode="reflect")',
        'ValueError',
        'Only "zeros" padding mode is supported for ConvTranspose2d',
    ),
    (
        'nn.BatchNorm1d(3)(torch.ones(1, 3))',
        'ValueError',
        'Expected more than 1 value per channel when training, got input size torch.Size([1, 3])',
    ),
    ('nn.BatchNorm2d(3)(torch.ones(2, 3))', 'ValueError', 'expected 4D input (got 2D input)'),
    ('nn.GroupNorm(3, 4)', 'ValueError', 'num_channels (4) must be divisible by num_groups (3)'),
    (
        'nn.InstanceNorm2d(3)(torch.ones(2, 3, 1, 1))',
        'ValueError',
        'Expected more than 1 spatial element when training, got input size torch.Size([2, 3, 1, 1])',
    ),
    ('nn.Embedding(3, 2, padding_idx=5)', 'AssertionError', 'Padding_idx must be within num_embeddings'),
    ('nn.Dropout(-.1)', 'ValueError', 'dropout probability has to be between 0 and 1, but got -0.1'),
    ('nn.Hardtanh(2, 1)', 'AssertionError', 'max_val (1) must be greater than min_val (2)'),
    ('nn.Unflatten(1, 3)', 'TypeError', 'unflattened_size must be a tuple of ints, but found type int'),
    (
        'nn.TripletMarginLoss(-1)',
        'ValueError',
        'TripletMarginLoss: expected margin to be greater than 0, got -1 instead',
    ),
    (
        'nn.FractionalMaxPool2d(2)',
        'ValueError',
        'FractionalMaxPool2d requires specifying either an output size, or a pooling ratio',
    ),
    ('F.dropout(torch.ones(3), p=1.5)', 'ValueError', 'dropout probability has to be between 0 and 1, but got 1.5'),
    (
        'F.mse_loss(torch.ones(2), torch.ones(2), reduction="foo")',
        'ValueError',
        'foo is not a valid value for reduction',
    ),
    (
        'F.binary_cross_entropy(torch.ones(2), torch.ones(3))',
        'ValueError',
        'Using a target size (torch.Size([3])) that is different to the input size (torch.Size([2])) is '
        'deprecated. Please ensure they have the same size.',
    ),
    (
        'F.binary_cross_entropy_with_logits(torch.ones(2), torch.ones(3))',
        'ValueError',
        'Target size (torch.Size([3])) must be the same as input size (torch.Size([2]))',
    ),
    (
        'F.interpolate(torch.ones(2, 2), size=4)',
        'NotImplementedError',
        'Input Error: Only 3D, 4D and 5D input Tensors supported (got 2D) for the modes: nearest | linear | '
        'bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got nearest)',
    ),
    ('F.interpolate(torch.ones(1, 1, 2, 2))', 'ValueError', 'either size or scale_factor should be defined'),
    (
        'F.interpolate(torch.ones(1, 1, 2, 2), size=4, mode="linear")',
        'NotImplementedError',
        'Got 4D input, but linear mode needs 3D input',
    ),
    ('F.relu(torch.ones(2), inplac=True)', 'TypeError', "relu() got an unexpected keyword argument 'inplac'"),
    ('nn.Sequential(1)', 'TypeError', 'int is not a Module subclass'),
    ('nn.ModuleList([1])', 'TypeError', 'int is not a Module subclass'),
    ('nn.ModuleDict({"a": 1})', 'TypeError', 'int is not a Module subclass'),
    ('nn.ModuleDict({"keys": nn.ReLU()})', 'KeyError', '"attribute \'keys\' already exists"'),
    ('nn.Sequential(nn.ReLU())[3]', 'IndexError', 'index 3 is out of range'),
    (
        'nn.Sequential(nn.ReLU()) + [nn.ReLU()]',
        'ValueError',
        "add operator supports only objects of Sequential class, but <class 'list'> is given.",
    ),
    (
        'nn.Sequential(nn.ReLU()) * 0',
        'ValueError',
        "Non-positive multiplication factor 0 for <class 'torch.nn.modules.container.Sequential'>",
    ),
    ('nn.Sequential(nn.ReLU()).insert(9, nn.ReLU())', 'IndexError', 'Index out of range: 9'),
    ('nn.ModuleList().extend(3)', 'TypeError', 'ModuleList.extend should be called with an iterable, but got int'),
    ('nn.ParameterList([1])[5]', 'IndexError', 'index 5 is out of range'),
    ('nn.ParameterList([1])(2)', 'RuntimeError', 'ParameterList should not be called.'),
    ('nn.Linear(2, 2).foo', 'AttributeError', "'Linear' object has no attribute 'foo'"),
    (
        'nn.Linear(2, 2).load_state_dict({"weight": torch.ones(2, 2)})',
        'RuntimeError',
        'Error(s) in loading state_dict for Linear:\n\tMissing key(s) in state_dict: "bias". ',
    ),
    (
        'nn.Linear(2, 2).load_state_dict({"weight": torch.ones(3, 2), "bias": torch.ones(2)})',
        'RuntimeError',
        'Error(s) in loading state_dict for Linear:\n\tsize mismatch for weight: copying a param with shape '
        'torch.Size([3, 2]) from checkpoint, the shape in current model is torch.Size([2, 2]).',
    ),
    (
        'nn.Linear(2, 2).load_state_dict({"weight": 3, "bias": torch.ones(2)})',
        'RuntimeError',
        'Error(s) in loading state_dict for Linear:\n\tWhile copying the parameter named "weight", expected '
        "torch.Tensor or Tensor-like object from checkpoint but received <class 'int'>",
    ),
    (
        'nn.Linear(2, 2).load_state_dict({"weight": torch.ones(2, 2), "bias": torch.ones(2), "extra": '
        'torch.ones(1)})',
        'RuntimeError',
        'Error(s) in loading state_dict for Linear:\n\tUnexpected key(s) in state_dict: "extra". ',
    ),
    ('nn.Linear(2, 2).load_state_dict(3)', 'TypeError', "Expected state_dict to be dict-like, got <class 'int'>."),
    (
        'nn.Module()(torch.ones(1))',
        'NotImplementedError',
        'Module [Module] is missing the required "forward" function',
    ),
    ('nn.Module(1)', 'TypeError', 'Module.__init__() takes 1 positional argument but 2 were given'),
    ('nn.Module(a=1)', 'TypeError', "Module.__init__() got an unexpected keyword argument 'a'"),
    ('nn.Module().register_parameter("a.b", None)', 'KeyError', '\'parameter name can\\\'t contain "."\''),
    ('nn.Module().register_parameter("", None)', 'KeyError', '\'parameter name can\\\'t be empty string ""\''),
    ('nn.Module().register_parameter("forward", None)', 'KeyError', '"attribute \'forward\' already exists"'),
    (
        'nn.Module().register_parameter("p", torch.ones(2))',
        'TypeError',
        "cannot assign 'torch.FloatTensor' object to parameter 'p' (torch.nn.Parameter or None required)",
    ),
    (
        'nn.Module().register_buffer("b", 1)',
        'TypeError',
        "cannot assign 'int' object to buffer 'b' (torch Tensor or None required)",
    ),
    ('nn.Module().register_buffer(3, None)', 'TypeError', 'buffer name should be a string. Got int'),
    ('nn.Module().add_module("m", 1)', 'TypeError', 'int is not a Module subclass'),
    ('nn.Module().add_module("a.b", None)', 'KeyError', '\'module name can\\\'t contain ".", got: a.b\''),
    (
        'nn.Parameter(torch.ones(2, dtype=torch.int64))',
        'RuntimeError',
        'Only Tensors of floating point and complex dtype can require gradients',
    ),
    (
        'nn.Linear(2, 2).to(torch.int64)',
        'TypeError',
        'nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.int64',
    ),
    ('nn.Linear(2, 2).train(3)', 'ValueError', 'training mode is expected to be boolean'),
    ('nn.Linear(2, 2).get_submodule("x")', 'AttributeError', 'Linear has no attribute `x`'),
    ('nn.Linear(2, 2).get_submodule("weight")', 'AttributeError', '`weight` is not an nn.Module'),
    ('nn.Linear(2, 2).get_parameter("x")', 'AttributeError', 'Linear has no attribute `x`'),
    ('nn.BatchNorm1d(2).get_parameter("running_mean")', 'AttributeError', '`running_mean` is not an nn.Parameter'),
    ('nn.Linear(2, 2).get_buffer("weight")', 'AttributeError', '`weight` is not a buffer'),
    ('nn.Sequential().set_submodule("", nn.ReLU())', 'ValueError', 'Cannot set the submodule without a target name!'),
    ('nn.Sequential().set_submodule("a", 3)', 'ValueError', "`module` is not an nn.Module, found <class 'int'>"),
    (
        'nn.Sequential().set_submodule("a", nn.ReLU(), strict=True)',
        'AttributeError',
        'Sequential has no attribute `a`',
    ),
    (
        'nn.LazyLinear(3).weight.shape',
        'RuntimeError',
        "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
        '`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call '
        '`forward` to initialize the parameters before accessing their attributes.',
    ),
    (
        'nn.LazyLinear(3).share_memory()',
        'RuntimeError',
        "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the "
        'parameters before calling `module.share_memory()`.',
    ),
    (
        'nn.LazyConv2d(3, 2)(torch.ones(5, 5))',
        'RuntimeError',
        'Expected 3D (unbatched) or 4D (batched) input to LazyConv2d, but got input of size: torch.Size([5, 5])',
    ),
    (
        'nn.init.xavier_uniform_(torch.ones(3))',
        'ValueError',
        'Fan in and fan out can not be computed for tensor with fewer than 2 dimensions',
    ),
    ('nn.init.orthogonal_(torch.ones(3))', 'ValueError', 'Only tensors with 2 or more dimensions are supported'),
    ('nn.init.eye_(torch.ones(3))', 'ValueError', 'Only tensors with 2 dimensions are supported'),
    (
        'nn.init.kaiming_normal_(torch.ones(3, 3), mode="x")',
        'ValueError',
        "Mode x not supported, please use one of ['fan_in', 'fan_out']",
    ),
    ('nn.init.calculate_gain("x")', 'ValueError', 'Unsupported nonlinearity x'),
    ('nn.ReLU()(torch.ones(2), 1)', 'TypeError', 'ReLU.forward() takes 2 positional arguments but 3 were given'),
    ('nn.utils.vector_to_parameters(3, [])', 'TypeError', 'expected torch.Tensor, but got: int'),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code, kind, message", ERRORS)
def test_error(code, kind, message):
    with pytest.raises(Exception) as caught:
        eval(code)
    assert (type(caught.value).__name__, public(str(caught.value))) == (kind, message)


LAYER_BITS = [
    (
        'Linear(20, 7)',
        ['-0x1.b6db360000000p-10', '0x1.eb533e0000000p-4', '-0x1.78e92c0000000p-3'],
        ['0x1.b1c9cc0000000p-3', '0x1.22d2600000000p-3'],
    ),
    (
        'Conv2d(3, 4, 3)',
        ['-0x1.79b5160000000p-10', '0x1.a6dd8a0000000p-4', '-0x1.4464a80000000p-3'],
        ['-0x1.5b782a0000000p-7', '0x1.d96c360000000p-6'],
    ),
    (
        'Conv1d(2, 4, 3, groups=2)',
        ['-0x1.1b47d00000000p-8', '0x1.3d26260000000p-2', '-0x1.e696fc0000000p-2'],
        ['-0x1.1a677a0000000p-1', '-0x1.878bac0000000p-2'],
    ),
    (
        'ConvTranspose2d(2, 4, 3)',
        ['-0x1.471aac0000000p-10', '0x1.6e36500000000p-4', '-0x1.18eec80000000p-3'],
        ['0x1.0c4b760000000p-4', '0x1.1acfc00000000p-3'],
    ),
    ('Embedding(5, 4)', ['-0x1.20370a0000000p+0', '-0x1.2701140000000p+0', '-0x1.0097ac0000000p-2'], None),
    (
        'Bilinear(2, 3, 4)',
        ['-0x1.5af2440000000p-8', '0x1.846d380000000p-2', '-0x1.29f9620000000p-1'],
        ['-0x1.d2d63c0000000p-4', '0x1.32786a0000000p-4'],
    ),
    (
        'LazyLinear(3)',
        ['-0x1.eaa8000000000p-9', '0x1.12a8bc0000000p-2', '-0x1.a5662c0000000p-2'],
        ['-0x1.e923700000000p-2', '-0x1.5316a40000000p-2'],
    ),
]


@pytest.mark.parametrize("code, weight, bias", LAYER_BITS)
def test_initial_values(code, weight, bias):
    torch.manual_seed(0)
    module = eval("nn." + code)
    if code.startswith("Lazy"):
        module(torch.ones(1, 4))
    assert bits(module.weight) == weight
    assert bias is None or bits(module.bias, 2) == bias


INIT_BITS = [
    ('uniform_(t, -1, 2)', ['0x1.45dc700000000p+0', '-0x1.4be9f80000000p-3', '0x1.ac75200000000p-3']),
    ('normal_(t, 1, 2)', ['-0x1.068d740000000p+1', '-0x1.003cc40000000p-1', '-0x1.3b5a580000000p-2']),
    ('xavier_uniform_(t)', ['0x1.98b3380000000p-2', '-0x1.5e18720000000p-2', '-0x1.33896e0000000p-3']),
    ('xavier_normal_(t, gain=2.0)', ['-0x1.5d52220000000p+0', '-0x1.5790f20000000p-1', '-0x1.2b7d080000000p-1']),
    (
        'kaiming_uniform_(t, a=0.3, mode="fan_out")',
        ['0x1.357aae0000000p-1', '-0x1.091a260000000p-1', '-0x1.d1c0460000000p-3'],
    ),
    (
        'kaiming_normal_(t, nonlinearity="relu")',
        ['-0x1.c2f8a20000000p-1', '-0x1.bb8ac40000000p-2', '-0x1.82a34c0000000p-2'],
    ),
    ('trunc_normal_(t)', ['-0x1.868d740000000p+0', '-0x1.801e620000000p-1', '-0x1.4ed6960000000p-1']),
    ('trunc_normal_(t, 0, 1, 3, 4)', ['0x1.d3cea60000000p+1', '0x1.b182160000000p+1', '0x1.82789e0000000p+1']),
    ('sparse_(t, 0.3)', ['-0x1.f3e8420000000p-7', '-0x1.ebac020000000p-8', '-0x1.ac97ca0000000p-8']),
]


@pytest.mark.parametrize("code, expected", INIT_BITS)
def test_init(code, expected):
    torch.manual_seed(1)
    t = torch.empty(4, 6)
    assert eval("nn.init." + code) is t
    assert bits(t) == expected


@pytest.mark.skipif(not hasattr(torch.Tensor, "t_") or not hasattr(torch.linalg, "qr"), reason="Tensor.t_ and linalg.qr are not there yet")
def test_orthogonal_rows():
    t = nn.init.orthogonal_(torch.empty(3, 5), gain=2)
    assert torch.allclose(t @ t.t(), 4 * torch.eye(3), atol=1e-5)


def test_gain():
    assert nn.init.calculate_gain("relu") == math.sqrt(2.0)
    assert nn.init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2.0 / (1 + 0.2 ** 2))
    assert nn.init.calculate_gain("tanh") == 5 / 3
    assert nn.init._calculate_fan_in_and_fan_out(torch.ones(3, 4, 5, 6)) == (120, 90)


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = nn.Sequential(nn.ReLU(), nn.BatchNorm1d(3))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x, shift=0):
        return self.second(self.first(x)) * self.scale + shift


def test_members_in_order():
    m = Pair()
    assert [name for name, _ in m.named_parameters()] == [
        "scale", "first.weight", "first.bias", "second.1.weight", "second.1.bias"]
    assert [name for name, _ in m.named_buffers()] == [
        "second.1.running_mean", "second.1.running_var", "second.1.num_batches_tracked"]
    assert [name for name, _ in m.named_modules()] == ["", "first", "second", "second.0", "second.1"]
    assert [name for name, _ in m.named_children()] == ["first", "second"]
    assert [name for name, _ in m.named_parameters(prefix="p", recurse=False)] == ["p.scale"]


def test_shared_module_is_listed_once():
    shared = nn.Linear(2, 2)
    m = nn.Sequential(shared, shared, nn.Sequential(shared))
    assert [name for name, _ in m.named_modules()] == ["", "0", "2"]
    assert [name for name, _ in m.named_modules(remove_duplicate=False)] == ["", "0", "1", "2", "2.0"]
    assert len(list(m.parameters())) == 2
    assert len(list(m.named_parameters(remove_duplicate=False))) == 6
    assert list(m.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias", "2.0.weight", "2.0.bias"]


def test_attribute_moves_between_kinds():
    m = nn.Module()
    m.register_buffer("x", torch.ones(1), persistent=False)
    assert m._non_persistent_buffers_set == {"x"} and m.state_dict() == {}
    m.x = nn.Parameter(torch.ones(2))
    assert list(m._parameters) == ["x"] and not m._buffers and not m._non_persistent_buffers_set
    del m.x
    m.x = nn.ReLU()
    assert list(m._modules) == ["x"]
    m.x = None
    assert m._modules == {"x": None}
    m.y = 3
    m.y = nn.Tanh()
    assert "y" not in m.__dict__
    m.z = nn.Buffer(torch.ones(1), persistent=False)
    assert m._non_persistent_buffers_set == {"z"}


def test_assigning_the_wrong_kind():
    m = Pair()
    with pytest.raises(TypeError) as caught:
        m.scale = torch.ones(1)
    assert public(str(caught.value)) == (
        "cannot assign 'torch.FloatTensor' as parameter 'scale' (torch.nn.Parameter or None expected)")
    with pytest.raises(TypeError) as caught:
        m.first = 3
    assert public(str(caught.value)) == "cannot assign 'int' as child module 'first' (torch.nn.Module or None expected)"


def test_members_before_init():
    class Early(nn.Module):
        def __init__(self, value):
            self.value = value

    for value, message in (
        (nn.ReLU(), "cannot assign module before Module.__init__() call"),
        (nn.Parameter(torch.ones(1)), "cannot assign parameters before Module.__init__() call"),
        (nn.Buffer(torch.ones(1)), "cannot assign buffer before Module.__init__() call"),
    ):
        with pytest.raises(AttributeError) as caught:
            Early(value)
        assert str(caught.value) == message
    with pytest.raises(AttributeError) as caught:
        Early(3)(1)
    assert str(caught.value) == "'Early' object has no attribute '_backward_hooks'"


def test_state_dict_round_trip():
    m, other = Pair(), Pair()
    state = m.state_dict()
    assert type(state) is OrderedDict
    assert state._metadata == {
        "": {"version": 1}, "first": {"version": 1}, "second": {"version": 1}, "second.0": {"version": 1},
        "second.1": {"version": 2}}
    assert not state["scale"].requires_grad and m.state_dict(keep_vars=True)["scale"].requires_grad
    assert repr(other.load_state_dict(state)) == "<All keys matched successfully>"
    assert torch.equal(other.first.weight, m.first.weight) and other.first.weight is not m.first.weight
    result = other.load_state_dict({"zz": 1, "first.foo": 2}, strict=False)
    assert result.unexpected_keys == ["zz", "first.foo"] and result.missing_keys[0] == "scale"


def test_load_by_assignment_keeps_requires_grad():
    m = nn.Linear(1, 1)
    weight = nn.Parameter(torch.ones(1, 1, dtype=torch.float64), requires_grad=False)
    m.load_state_dict({"weight": weight, "bias": torch.ones(1)}, assign=True)
    assert m.weight is weight and m.weight.requires_grad and isinstance(m.bias, nn.Parameter)


def test_old_batch_norm_state_needs_no_count():
    m = nn.BatchNorm1d(2)
    state = m.state_dict()
    del state["num_batches_tracked"]
    with pytest.raises(RuntimeError):
        m.load_state_dict(state)
    state._metadata[""]["version"] = 1
    m.load_state_dict(state)


def test_state_dict_hooks_run_in_order():
    m, seen = nn.Linear(1, 1), []
    m.register_state_dict_pre_hook(lambda mod, prefix, keep: seen.append(("pre", prefix, keep)))
    m.register_state_dict_post_hook(lambda mod, state, prefix, meta: seen.append(("post", list(state), meta)))
    m.register_load_state_dict_pre_hook(lambda mod, state, prefix, *rest: seen.append(("load", list(state), prefix)))
    m.register_load_state_dict_post_hook(lambda mod, keys: seen.append(("loaded", keys.missing_keys)))
    outer = nn.Sequential(m, nn.Linear(1, 1))
    outer.load_state_dict(outer.state_dict())
    assert seen == [
        ("pre", "0.", False), ("post", ["0.weight", "0.bias"], {"version": 1}),
        ("load", ["0.weight", "0.bias"], "0."), ("loaded", [])]


def test_forward_is_found_as_any_attribute():
    plain, own, late = nn.ReLU(), nn.ReLU(), nn.ReLU()
    own.forward = lambda x: x - 1

    class Watched(nn.ReLU):
        def __getattribute__(self, name):
            return (lambda x: x + 1) if name == "forward" else super().__getattribute__(name)

    class Static(nn.Module):
        forward = staticmethod(lambda x: x * 2)

    class Missing(nn.Module):
        pass

    x = torch.tensor([-1.0, 1.0])
    assert plain(x).tolist() == plain(input=x).tolist() == [0, 1] and own(x).tolist() == [-2, 0]
    assert Watched()(x).tolist() == [0, 2] and Static()(x).tolist() == [-2, 2]
    with pytest.raises(NotImplementedError, match='Module .Missing. is missing the required "forward" function'):
        Missing()(x)
    late.__class__ = Static
    assert late(x).tolist() == [-2, 2]


def test_forward_hooks():
    class Echo(nn.Module):
        def forward(self, x, y=0):
            return x + y

    m = Echo()
    m.register_forward_pre_hook(lambda mod, args: (args[0] + 1,))
    m.register_forward_pre_hook(lambda mod, args, kwargs: (args, {"y": 10}), with_kwargs=True)
    assert m(1, y=2) == 12
    last = m.register_forward_hook(lambda mod, args, kwargs, out: (args, kwargs, out), with_kwargs=True)
    first = m.register_forward_hook(lambda mod, args, out: out * 2, prepend=True)
    assert m(1) == ((2,), {"y": 10}, 24)
    last.remove()
    first.remove()
    assert not m._forward_hooks and not m._forward_hooks_with_kwargs
    with m.register_forward_hook(lambda *given: "other"):
        assert m(1) == "other"
    assert m(1) == 12


def test_pre_hook_must_return_a_pair():
    m = nn.Identity()
    m.register_forward_pre_hook(lambda mod, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError) as caught:
        m(1)
    assert str(caught.value) == "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got 3."


def test_always_called_hooks():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("boom")

    m, seen = Broken(), []
    m.register_forward_hook(lambda mod, args, out: seen.append(("always", out)), always_call=True)
    m.register_forward_hook(lambda mod, args, out: seen.append("never"))
    with pytest.raises(ValueError, match="boom"):
        m(1)
    assert seen == [("always", None)]


def test_global_hooks():
    module = nn.modules.module
    seen = []
    handles = [
        module.register_module_forward_pre_hook(lambda mod, args: seen.append(("pre", type(mod).__name__))),
        module.register_module_forward_hook(lambda mod, args, out: seen.append(("post", out))),
    ]
    nn.Identity()(3)
    for handle in handles:
        handle.remove()
    nn.Identity()(4)
    assert seen == [("pre", "Identity"), ("post", 3)]


def test_full_backward_hooks():
    x = torch.ones(2, 3, requires_grad=True)
    m, seen = nn.Linear(3, 2), []
    with torch.no_grad():
        m.weight.fill_(1.0)
    m.register_full_backward_hook(
        lambda mod, grad_in, grad_out: seen.append((grad_in[0].tolist(), grad_out[0].tolist())))
    m(x).sum().backward()
    assert seen == [([[2.0] * 3] * 2, [[1.0] * 2] * 2)]
    m.register_full_backward_hook(lambda mod, grad_in, grad_out: (grad_in[0] * 2,))
    m.register_full_backward_pre_hook(lambda mod, grad_out: (grad_out[0] * 3,))
    x.grad = None
    m(x).sum().backward()
    assert x.grad.tolist() == [[12.0] * 3] * 2
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks"):
        m.register_backward_hook(lambda *given: None)


def test_backward_hook_without_gradient_of_inputs():
    m, seen = nn.Linear(3, 2), []
    m.register_full_backward_hook(lambda mod, grad_in, grad_out: seen.append(grad_in))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        m(torch.ones(1, 3)).sum().backward()
    assert seen == [(None,)]


def test_conversions():
    m = Pair()
    weight = m.first.weight
    assert m.double() is m and m.first.weight is weight and weight.dtype == torch.float64
    assert m.second[1].num_batches_tracked.dtype == torch.int64
    assert m.to(torch.float32).scale.dtype == torch.float32
    assert m.to("cpu", torch.float64).scale.dtype == torch.float64
    assert m.to(torch.ones(1)).scale.dtype == torch.float32
    assert m.half().scale.dtype == torch.float16 and m.bfloat16().scale.dtype == torch.bfloat16
    assert m.requires_grad_(False).scale.requires_grad is False
    assert m.eval().second[1].training is False and m.train().second[1].training is True


def test_train_is_asked_of_whoever_overrides_it():
    heard = []

    class Frozen(nn.Linear):
        def train(self, mode=True):
            heard.append(mode)
            return super().train(False)

    class Told(nn.Module):
        def __setattr__(self, name, value):
            if name == "training":
                heard.append("set")
            super().__setattr__(name, value)

    class Hiding(nn.Module):
        def children(self):
            yield self.shown

    twice = Frozen(2, 2)
    hiding = Hiding()
    hiding.shown, hiding.other = nn.ReLU(), nn.ReLU()
    m = nn.Sequential(twice, twice, nn.Sequential(nn.ReLU(), Told()), hiding, None)
    m[2][0].train = lambda mode: heard.append("own")
    heard.clear()
    assert m.eval() is m and heard == [False, "own", "set"] and not m[2].training and m[2][0].training
    assert not hiding.shown.training and hiding.other.training
    assert m.train().training and not twice.training and hiding.shown.training


def test_zero_grad():
    m = nn.Linear(2, 2)
    m(torch.ones(1, 2)).sum().backward()
    m.zero_grad(set_to_none=False)
    assert m.bias.grad.tolist() == [0.0, 0.0]
    m.zero_grad()
    assert m.bias.grad is None


def test_copies_and_pickles():
    m = Pair()
    m.register_buffer("b", torch.ones(1))
    for twin in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert torch.equal(twin.first.weight, m.first.weight) and twin.first.weight is not m.first.weight
        assert type(twin.scale) is nn.Parameter and list(twin.state_dict()) == list(m.state_dict())


def test_parameter():
    assert repr(nn.Parameter(torch.ones(1))) == "Parameter containing:\ntensor([1.], requires_grad=True)"
    assert type(nn.Parameter(torch.ones(1)) * 2) is torch.Tensor
    assert not isinstance(torch.ones(1), nn.Parameter) and not isinstance(torch.ones(1), nn.Buffer)
    assert isinstance(nn.Buffer(torch.ones(1)), nn.Buffer)

    class Mine(torch.Tensor):
        pass

    marked = nn.Parameter(torch.ones(2).as_subclass(Mine))
    assert type(marked) is Mine and isinstance(marked, nn.Parameter) and marked.requires_grad


def test_lazy_linear():
    m = nn.LazyLinear(3)
    assert repr(m.weight) == "<UninitializedParameter>" and m.has_uninitialized_params()
    assert m(torch.ones(2, 4)).shape == (2, 3)
    assert type(m) is nn.Linear and m.in_features == 4 and type(m.weight) is nn.Parameter
    loaded = nn.LazyLinear(3)
    loaded.load_state_dict({"weight": torch.ones(3, 5), "bias": torch.ones(3)})
    assert loaded(torch.ones(1, 5)).tolist() == [[6.0, 6.0, 6.0]] and loaded.in_features == 5
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        nn.LazyLinear(3).weight + 1


def test_lazy_norm_and_conv():
    norm, conv = nn.LazyBatchNorm1d(), nn.LazyConv2d(3, 2)
    norm(torch.rand(2, 4))
    conv(torch.ones(1, 4, 5, 5))
    assert type(norm) is nn.BatchNorm1d and norm.running_mean.shape == (4,)
    assert type(conv) is nn.Conv2d and conv.weight.shape == (3, 4, 2, 2)


def test_sequential_edits():
    s = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
    names = lambda: [type(m).__name__ for m in s]
    assert [type(m).__name__ for m in s[::2]] == ["ReLU", "Sigmoid"]
    s.insert(1, nn.GELU()).append(nn.ELU())
    assert names() == ["ReLU", "GELU", "Tanh", "Sigmoid", "ELU"]
    del s[1]
    assert type(s.pop(0)).__name__ == "ReLU" and names() == ["Tanh", "Sigmoid", "ELU"]
    assert list(s._modules) == ["0", "1", "2"]
    assert len(s + s) == 6 and len(2 * s) == 6
    s *= 2
    assert len(s) == 6
    named = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
    assert list(named[1:]._modules) == ["b"]


def test_module_list_repr():
    assert repr(nn.ModuleList([nn.Linear(1, 1), nn.ReLU(), nn.ReLU()])) == (
        "ModuleList(\n  (0): Linear(in_features=1, out_features=1, bias=True)\n  (1-2): 2 x ReLU()\n)")
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_parameter_containers():
    p = nn.ParameterList([torch.ones(2), 3])
    assert public(repr(p)) == (
        "ParameterList(\n    (0): Parameter containing: [torch.float32 of size 2]\n    (1): Object of type: int\n)")
    p.append(torch.ones(1))
    assert [name for name, _ in p.named_parameters()] == ["0", "2"] and p[1] == 3
    d = nn.ParameterDict({"b": torch.ones(2), "a": torch.ones(1)})
    assert list(d) == ["a", "b"] and d.popitem()[0] == "b" and "b" not in d
    assert list(d | {"k": 1}) == ["a", "k"]


def test_functions_offer_themselves_for_override():
    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func, args[1:], kwargs

    x = torch.ones(2, 3).as_subclass(Watched)
    assert F.relu(x) == (F.relu, (), {"inplace": False})
    assert F.layer_norm(x, (3,)) == (F.layer_norm, ((3,),), {"weight": None, "bias": None, "eps": 1e-5})
    assert F.softmax(x, 0) == (F.softmax, (), {"dim": 0, "_stacklevel": 3, "dtype": None})
    assert F.max_pool2d(x, 2)[2] == {
        "stride": None, "padding": 0, "dilation": 1, "ceil_mode": False, "return_indices": False}
    assert F.relu.__module__ == torch.__name__ + ".nn.functional"


def test_losses():
    x, y = torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([[1.0, 1.0, 1.0]])
    assert F.mse_loss(x, y, reduction="sum").item() == 10.0
    assert F.l1_loss(x, y, reduction="none").tolist() == [[0.0, 1.0, 3.0]]
    assert F.l1_loss(x, y, weight=x).item() == 2.0
    assert F.smooth_l1_loss(x, y, reduction="sum").item() == 3.0
    assert F.huber_loss(x, y, reduction="sum", delta=0.5).item() == 0.375 + 1.375
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert nn.MSELoss(size_average=False).reduction == "sum"
    with pytest.warns(UserWarning, match="Using a target size"):
        F.mse_loss(x, y[0])


def test_implicit_softmax_dim_warns():
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax has been deprecated"):
        F.softmax(torch.ones(2, 3))


def test_clip_grad():
    p = nn.Parameter(torch.zeros(2))
    p.grad = torch.tensor([3.0, 4.0])
    assert nn.utils.clip_grad_norm_([p], 10.0).item() == 5.0 and p.grad.tolist() == [3.0, 4.0]
    nn.utils.clip_grad_value_(p, 3.5)
    assert p.grad.tolist() == [3.0, 3.5]
    p.grad = torch.tensor([3.0, math.nan])
    with pytest.raises(RuntimeError, match="The total norm of order 2.0 for gradients from `parameters` is non-finite"):
        nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)


def test_parameters_as_vector():
    m = nn.Linear(2, 2)
    nn.utils.vector_to_parameters(torch.arange(6.0), m.parameters())
    assert m.weight.tolist() == [[0.0, 1.0], [2.0, 3.0]] and m.bias.tolist() == [4.0, 5.0]
    assert nn.utils.parameters_to_vector(m.parameters()).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_where_classes_live():
    assert nn.Linear.__module__ == torch.__name__ + ".nn.modules.linear"
    assert nn.Module.__module__ == torch.__name__ + ".nn.modules.module"
    assert nn.Parameter.__module__ == torch.__name__ + ".nn.parameter"


@pytest.mark.parametrize("code, shapes", [
    ("LSTM(3, 4)", {"weight_ih_l0": (16, 3), "weight_hh_l0": (16, 4), "bias_ih_l0": (16,), "bias_hh_l0": (16,)}),
    ("GRU(3, 4, bias=False)", {"weight_ih_l0": (12, 3), "weight_hh_l0": (12, 4)}),
    ("LSTM(3, 4, proj_size=2, bias=False)", {
        "weight_ih_l0": (16, 3), "weight_hh_l0": (16, 2), "weight_hr_l0": (2, 4)}),
    ("RNN(3, 4, 2, bidirectional=True, bias=False)", {
        "weight_ih_l0": (4, 3), "weight_hh_l0": (4, 4), "weight_ih_l0_reverse": (4, 3),
        "weight_hh_l0_reverse": (4, 4), "weight_ih_l1": (4, 8), "weight_hh_l1": (4, 4),
        "weight_ih_l1_reverse": (4, 8), "weight_hh_l1_reverse": (4, 4)}),
])
def test_recurrent_weights(code, shapes):
    module = eval("nn." + code)
    assert {name: tuple(param.shape) for name, param in module.named_parameters()} == shapes
    assert module._flat_weights[0] is module.weight_ih_l0


def test_recurrent_initial_values():
    torch.manual_seed(0)
    m = nn.LSTM(3, 4)
    assert m.weight_ih_l0.flatten()[:2].tolist() == [-0.003743410110473633, 0.26822179555892944]
    assert m.weight_hh_l0.flatten()[:2].tolist() == [-0.2217475175857544, -0.01804119348526001]
    assert m.bias_hh_l0[:2].tolist() == [-0.17491668462753296, -0.4098108410835266]


@pytest.mark.parametrize("code, kind, message", [
    ("nn.LSTM(3, 0)", ValueError, "hidden_size must be greater than zero"),
    ("nn.LSTM(3, 4, proj_size=4)", ValueError, "proj_size has to be smaller than hidden_size"),
    ("nn.GRU(3, 4, proj_size=2)", ValueError, "proj_size argument is only supported for LSTM, not RNN or GRU"),
    ("nn.RNN(3, 4, nonlinearity='x')", ValueError, "Unknown nonlinearity 'x'. Select from 'tanh' or 'relu'."),
    ("nn.LSTM(3, 4)(torch.ones(3))", ValueError, "LSTM: Expected input to be 2D or 3D, got 1D instead"),
    ("nn.GRU(3, 4)(torch.ones(2, 2, 5))", RuntimeError,
     "input.size(-1) must be equal to input_size. Expected 3, got 5"),
    ("nn.GRU(3, 4)(torch.ones(2, 2, 3), torch.ones(1, 3, 4))", RuntimeError,
     "Expected hidden size (1, 2, 4), got [1, 3, 4]"),
    ("nn.LSTMCell(3, 4)(torch.ones(1, 1, 3))", ValueError, "LSTMCell: Expected input to be 1D or 2D, got 3D instead"),
])
def test_recurrent_errors(code, kind, message):
    with pytest.raises(kind) as caught:
        eval(code)
    assert str(caught.value) == message


@pytest.mark.skipif(not hasattr(torch, "allclose") or not hasattr(torch._C._nn, "scaled_dot_product_attention"),
                    reason="allclose and scaled_dot_product_attention are not there yet")
def test_attention():
    torch.manual_seed(0)
    m = nn.MultiheadAttention(4, 2)
    assert [name for name, _ in m.named_parameters()] == [
        "in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
    assert m.in_proj_weight.flatten()[:2].tolist() == [0.22242416441440582, 0.508506715297699]
    assert m.out_proj.weight.flatten()[:2].tolist() == [-0.003743410110473633, 0.26822179555892944]
    assert m.in_proj_bias.tolist() == [0.0] * 12
    q = torch.rand(3, 2, 4)
    hidden = torch.ones(3, 3).triu(1).bool()
    output, weights = m(q, q, q, attn_mask=hidden)
    assert output.shape == (3, 2, 4) and weights.shape == (2, 3, 3)
    assert weights[0, 0].tolist() == [1.0, 0.0, 0.0] and torch.allclose(weights.sum(-1), torch.ones(2, 3))
    alone, none = m(q, q, q, attn_mask=hidden, need_weights=False)
    assert none is None and torch.allclose(alone, output, atol=1e-6)
    unbatched, _ = m(q[:, 0], q[:, 0], q[:, 0], attn_mask=hidden)
    assert torch.allclose(unbatched, output[:, 0], atol=1e-6)


@pytest.mark.parametrize("code, kind, message", [
    ("nn.MultiheadAttention(5, 2)", AssertionError, "embed_dim must be divisible by num_heads"),
    ("nn.MultiheadAttention(4, 2)(*[torch.ones(2, 1, 5)] * 3)", AssertionError,
     "was expecting embedding dimension of 4, but got 5"),
    ("nn.MultiheadAttention(4, 2)(*[torch.ones(2, 1, 4)] * 3, attn_mask=torch.zeros(5, 5))", RuntimeError,
     "The shape of the 2D attn_mask is torch.Size([5, 5]), but should be (2, 2)."),
    ("nn.MultiheadAttention(4, 2)(*[torch.ones(2, 1, 4)] * 3, is_causal=True)", RuntimeError,
     "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
     "`generate_square_subsequent_mask` to create this mask."),
])
def test_attention_errors(code, kind, message):
    with pytest.raises(kind) as caught:
        eval(code)
    assert public(str(caught.value)) == message


def test_data_parallel_is_the_module_itself():
    m = nn.DataParallel(nn.Linear(2, 2), device_ids=[0])
    assert m.device_ids == [] and list(m.state_dict()) == ["module.weight", "module.bias"]
    x = torch.ones(1, 2)
    assert torch.equal(m(x), m.module(x))


@pytest.mark.parametrize("a, b, offs", [((16, 32), (3, 32, 24), [4, 9, 16]), ((16, 32), (32, 24), [8, 16, 32]),
                                        ((3, 16, 32), (32, 24), [8, 16, 24]), ((3, 16, 32), (3, 32, 24), None)])
def test_grouped_mm(a, b, offs):
    torch.manual_seed(0)
    a, b = torch.randn(*a, requires_grad=True), torch.randn(*b, requires_grad=True)
    got = torch.nn.functional.grouped_mm(a, b, offs=offs and torch.tensor(offs, dtype=torch.int32))
    if offs is None:
        assert torch.equal(got, torch.bmm(a, b))
        return
    groups = list(enumerate(zip([0, *offs], offs)))
    if a.dim() == b.dim() == 2:
        wanted = torch.stack([a[:, begin:end] @ b[begin:end] for _, (begin, end) in groups])
    elif a.dim() == 2:
        wanted = torch.cat([a[begin:end] @ b[i] for i, (begin, end) in groups])
    else:
        wanted = torch.cat([a[i] @ b[:, begin:end] for i, (begin, end) in groups], 1)
    assert torch.allclose(got, wanted, atol=1e-5)
    for one, other in zip(*(torch.autograd.grad((y * y).sum(), (a, b)) for y in (got, wanted))):
        assert torch.allclose(one, other, atol=1e-3)
    with pytest.raises(RuntimeError, match="Offsets have to be int32"):
        torch.nn.functional.grouped_mm(a, b, offs=torch.tensor(offs))


def test_losses_called_directly():
    """As functions without a reduction they are not reduced, as ops they are."""
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0])
    assert torch._C._nn.mse_loss(x, y).tolist() == [1, 4] and torch.ops.aten.mse_loss(x, y).item() == 2.5
    assert torch.kl_div(x, y).dim() == 1 and torch.ops.aten.kl_div(x, y).dim() == 0 and F.mse_loss(x, y).item() == 2.5


def test_an_expanded_input_of_huber_loss_decides_how_the_losses_lie():
    target = torch.zeros(3, 2).t()
    assert F.huber_loss(torch.zeros(()), target, reduction="none").stride() == (3, 1)
    assert F.huber_loss(target, torch.zeros(()), reduction="none").stride() == (1, 2)
