"""The version of the numbers.

Rows of a store carry it in their keys, so that numbers of an older version are never taken for
those of this one. Raise it by one whenever a public number changes by more than rounding, and make
the reference values again (`python tests/reference/make_numerics.py`): a test compares them.

1. everything before rows carried a version
2. capacity by importance sampling of its tails (attention's moves by up to its standard error, and
   by some percent beyond a few hundred samples per dimension)
3. a simulated training set of one class has a test error, that of naming the class always; fits at
   the edge of separability with a tiny ridge, which had none
4. oracles of tasks beyond the paper's and of other weightings move within their standard errors;
   the cost of a plan counts every atom (up to 0.2 %); laws of 513 to 1023 tokens have their tails
   (errors rise by up to 10 %)
5. so have attention's capacity from 129 to 512 tokens (it falls by up to 2 %) and drafts of 65 to
   256 tokens, behind predictions at finite size and plans (errors rise by up to 5 %)
"""

NUMERICS = 5
