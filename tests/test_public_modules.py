"""Modules that programs import by name, in addition to `neuroncore` itself."""

import neuroncore
from neuroncore.base import errors, options
from neuroncore.errors import KernelError, NeuronError, UsageError
from neuroncore.options import Options


def test_errors_and_options_are_imported_by_their_public_names():
    assert (KernelError, NeuronError, UsageError) == (
        *(errors.KernelError, errors.NeuronError, errors.UsageError),
    )
    assert Options is options.Options is neuroncore.Options
    assert neuroncore.errors.KernelError is KernelError
