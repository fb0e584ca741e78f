"""The chapter on sparse coding; its modules are `sparse.runs` and the cells in chapter.py.

Libraries of arrays ask of an argument whether it is an array of the package of this name on the package
index, where they find it imported: `isinstance(x, sparse.SparseArray)`. This folder has none.
"""


class SparseArray:
    """No array is one."""
