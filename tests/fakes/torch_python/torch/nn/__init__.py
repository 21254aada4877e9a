# SPDX-License-Identifier: Apache-2.0
"""See the package above."""


class Module:
    training = True

    def __call__(self, *tensors):
        return self.forward(*tensors)

    def eval(self):
        self.training = False
        return self

    def to(self, where):
        self.where = where.name
        return self

    def parameters(self):
        return []

    def load_state_dict(self, state):
        self.__dict__.update(state)


class Linear(Module):
    pass
