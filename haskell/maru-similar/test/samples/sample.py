import os
from sys import (argv,
    path)
class Account(Base):
    """doc"""
    def __init__(self, b):
        self.balance = b
    @property
    def get(self):
        return self.balance
def total(xs):
    s = 0
    for i, x in enumerate(xs):
        if x > 0 and not x == 3:
            s += x[i]
        elif x == 2:
            continue
        else:
            break
    while s >= 100:
        s -= 1
    try:
        raise ValueError("x")
    except ValueError as e:
        pass
    finally:
        s = 1
    t = [y * 2 for y in xs if y]
    assert s
    f = lambda a: a + 1
    return s if s else f(2)
