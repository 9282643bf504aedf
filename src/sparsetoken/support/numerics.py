"""The version of the numbers.

Rows of a store carry it in their keys, so that numbers of an older version are never taken for
those of this one. Raise it by one whenever a public number changes by more than rounding, and make
the reference values again (`python tests/reference/make_numerics.py`): a test compares them.

1. everything before rows carried a version
2. capacity by importance sampling of its tails (attention's moves by up to its standard error, and
   by some percent beyond a few hundred samples per dimension)
3. a simulated training set of one class has a test error, that of naming the class always; fits at
   the edge of separability with a tiny ridge, which had none
"""

NUMERICS = 3
