from torch_that_is_not_there import nothing


def here():
    return 3
