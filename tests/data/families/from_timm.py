"""Models of timm, without torchvision, of which timm imports much and these models build nothing."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types

import torch


class _Anything(type):
    """Classes whose every attribute is its own name, such as `InterpolationMode.NEAREST`."""

    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class _Absent(types.ModuleType):
    """A module of torchvision: whatever is asked of it is an empty class."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (torch.nn.Module,), {})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name.partition(".")[0] == "torchvision" else None

    def create_module(self, spec):
        return _Absent(spec.name)

    def exec_module(self, module):
        pass


if importlib.util.find_spec("torchvision") is None:
    sys.meta_path.append(_Finder())

import timm  # noqa: E402


def resnet50():
    return timm.create_model("resnet50")


def convnext_tiny():
    return timm.create_model("convnext_tiny")


def swin_tiny():
    return timm.create_model("swin_tiny_patch4_window7_224")


def vit_b16():
    return timm.create_model("vit_base_patch16_224")


def efficientnet_b0():
    return timm.create_model("efficientnet_b0")


def mobilenetv3():
    return timm.create_model("mobilenetv3_large_100")


example_inputs = (torch.ones(8, 3, 224, 224),)
