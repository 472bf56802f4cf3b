def pytest_addoption(parser):
    parser.addoption("--record", action="store_true", help="write what the oracle says as the vectors that serve without it")
