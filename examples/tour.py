"""The tour: a small digit classifier, trained from generated pictures, then sent through every door, each step checked.

    make demo                 on Taper; with ORACLE=1 each printed loss is compared with PyTorch's from the same seed

The doors: compile, jit.trace, .pt2, ONNX (run by onnxruntime where that is installed), one C file (compiled where there is a C
compiler), and the .pt2 run by a C program that links with libtaper. What each computes is held against the eager model.
docs/tour.md says what happens, file by file.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

STEPS, EVERY, BATCH = 200, 20, 64

# Seven segments a digit, as on a pocket calculator: top, top left, top right, middle, bottom left, bottom right, bottom.
SEGMENTS = ("1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011")
STROKES = (((1, slice(2, 6))), (slice(1, 4), 1), (slice(1, 4), 6), (4, slice(2, 6)), (slice(4, 7), 1), (slice(4, 7), 6), (7, slice(2, 6)))


def glyphs(torch):
    """Ten 9x8 pictures of the digits."""
    pictures = torch.zeros(10, 9, 8)
    for digit, bits in enumerate(SEGMENTS):
        for bit, (rows, columns) in zip(bits, STROKES):
            if bit == "1":
                pictures[digit, rows, columns] = 1.0
    return pictures


def batch(torch, pictures):
    """Random digits, dimmed and covered with noise."""
    labels = torch.randint(0, 10, (BATCH,))
    light = torch.rand(BATCH, 1, 1) * 0.5 + 0.5
    return (pictures[labels] * light + torch.randn(BATCH, 9, 8) * 0.3).unsqueeze(1), labels


def train(torch, report):
    nn, functional = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    pictures = glyphs(torch)
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 4 * 4, 64),
                        nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    losses = []
    for step in range(STEPS):
        x, labels = batch(torch, pictures)
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(x), labels)
        loss.backward()
        optimizer.step()
        if step % EVERY == 0 or step == STEPS - 1:
            losses.append(loss.item())
            report(step, losses[-1])
    with torch.no_grad():
        net.eval()
        x, labels = batch(torch, pictures)
        accuracy = (net(x).argmax(1) == labels).float().mean().item()
    return net, x, losses, accuracy


# ---- the doors ---------------------------------------------------------------------------------------------------------
HERE = os.path.dirname(os.path.abspath(__file__))
STRICT = ["-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def timed(work):
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def each_call(work, rounds=50):
    """Seconds of one call, the best of several rounds."""
    return min(timed(work)[1] for _ in range(rounds))


def through_compile(torch, net, x, folder):
    compiled = torch.compile(net, fullgraph=True)
    got, made = timed(lambda: compiled(x))
    return got, made, None, each_call(lambda: compiled(x))


def through_jit(torch, net, x, folder):
    path = os.path.join(folder, "traced.pt")
    _, made = timed(lambda: torch.jit.save(torch.jit.trace(net, x), path))
    again = torch.jit.load(path)
    return again(x), made, path, each_call(lambda: again(x))


def through_pt2(torch, net, x, folder):
    path = os.path.join(folder, "digits.pt2")
    batch = torch.export.Dim("batch", min=2, max=1024)
    _, made = timed(lambda: torch.export.save(torch.export.export(net, (x,), dynamic_shapes=({0: batch},)), path))
    again = torch.export.load(path).module()
    if again(x[:7]).shape[0] != 7:
        raise AssertionError("the exported program does not take another batch size")
    return again(x), made, path, each_call(lambda: again(x))


def through_onnx(torch, net, x, folder):
    path = os.path.join(folder, "digits.onnx")
    _, made = timed(lambda: torch.onnx.export(net, (x,), path, dynamo=True))
    try:
        import onnxruntime
    except ImportError:
        return None, made, path, None
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x.numpy()}
    return torch.from_numpy(session.run(None, feed)[0]), made, path, each_call(lambda: session.run(None, feed))


def numbers(text, shape, torch):
    """What a program printed, as a tensor: words that are numbers."""
    values = []
    for word in text.split():
        try:
            values.append(float(word))
        except ValueError:
            pass
    return torch.tensor(values).reshape(shape)


def through_c(torch, net, x, folder):
    """One C file of one picture's classifier, without allocation; libc and libm only."""
    path, program, raw = (os.path.join(folder, name) for name in ("digits.c", "digits", "picture.bin"))
    one = x[:1].contiguous()
    _, made = timed(lambda: torch.cc(net, path, (one,), main=True))
    compiler = shutil.which("cc")
    if compiler is None:
        return None, made, path, None
    subprocess.run([compiler, "-std=c99", *STRICT, path, "-o", program, "-lm"], check=True)
    with open(raw, "wb") as f:
        f.write(one.numpy().tobytes())
    text = subprocess.run([program, raw], check=True, capture_output=True, text=True).stdout
    return numbers(text.split("\n", 1)[1], (1, 10), torch), made, path, None


def through_libtaper(torch, net, x, folder):
    """The .pt2 in a program without Python."""
    library, compiler = os.path.join(os.path.dirname(torch._C.__file__), "..", "..", "src"), shutil.which("cc")
    if compiler is None or not os.path.exists(os.path.join(library, "libtaper.so")):
        return None, None, None, None
    program = os.path.join(folder, "run_program")
    include = os.path.join(HERE, "..", "include")
    subprocess.run([compiler, "-std=c17", *STRICT, os.path.join(HERE, "run_program.c"), f"-I{include}", f"-L{library}", "-ltaper",
                    f"-Wl,-rpath,{os.path.abspath(library)}", "-o", program], check=True)
    two = x[:2]
    words = ["x".join(map(str, two.shape)), *(repr(v) for v in two.flatten().tolist())]
    done, spent = timed(lambda: subprocess.run([program, os.path.join(folder, "digits.pt2"), *words], check=True, capture_output=True,
                                               text=True))
    return numbers(done.stdout.split("]", 1)[1], (2, 10), torch), spent, program, None


DOORS = (("compile", through_compile, 0.0), ("jit.trace, saved, loaded", through_jit, 0.0), (".pt2, saved, loaded", through_pt2, 0.0),
         ("ONNX, by onnxruntime", through_onnx, 1e-5), ("one C file, compiled", through_c, 1e-6), (".pt2 in a C program", through_libtaper, 1e-4))


def go_through(torch, net, x, faults):
    """Each door: what it made, how long that took, what a call costs, and how far its result is from the eager one."""
    print(f"\n{'door':26} {'made in':>10} {'size':>10} {'a call':>10}   largest difference")
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        want = net(x)
        print(f"{'eager':26} {'':>10} {'':>10} {each_call(lambda: net(x)) * 1e6:7.1f} us")
        for name, door, allowed in DOORS:
            got, made, path, call = door(torch, net, x, folder)
            size = f"{os.path.getsize(path) / 1024:7.1f} KB" if path else ""
            cost = f"{call * 1e6:7.1f} us" if call else ""
            if got is None:
                print(f"{name:26} {'':>10} {size:>10} {cost:>10}   not run: its tool is not installed")
                continue
            difference = ((got - want[: got.shape[0]]).abs().max() / want.abs().max()).item()
            print(f"{name:26} {made * 1e3:7.1f} ms {size:>10} {cost:>10}   {difference:.1e}")
            if not difference <= allowed:
                faults.append(f"{name} differs from the eager model by {difference:.1e}")


def oracle_losses(python):
    """The same training on PyTorch, in a process of its own."""
    done = subprocess.run([python, os.path.abspath(__file__), "--losses"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main():
    start = time.perf_counter()
    import taper as torch
    imported = time.perf_counter() - start
    oracle = os.environ.get("TAPER_ORACLE")
    expected = oracle_losses(oracle) if oracle else None
    print(f"import taper                {imported * 1e3:8.1f} ms")
    differences = []

    def report(step, loss):
        note = ""
        if expected:
            want = expected["losses"][min(step // EVERY + (step % EVERY != 0), len(expected["losses"]) - 1)]
            differences.append(abs(loss - want) / abs(want))
            note = f"   PyTorch {want:.6f}"
        print(f"step {step:4}   loss {loss:.6f}{note}")

    start = time.perf_counter()
    net, x, losses, accuracy = train(torch, report)
    spent = time.perf_counter() - start
    print(f"{STEPS} steps                   {spent * 1e3:8.1f} ms, {spent / STEPS * 1e6:.0f} us a step")
    print(f"accuracy on fresh digits    {accuracy:8.3f}")
    faults = []
    if not losses[-1] < 0.2 * losses[0]:
        faults.append("the loss did not fall to a fifth")
    if accuracy < 0.9:
        faults.append("accuracy is below 0.9")
    if expected:
        print(f"largest relative difference to PyTorch's losses: {max(differences):.1e}")
        if not all(d <= 1e-4 for d in differences):
            faults.append("losses differ from PyTorch's by more than 1e-4")
    go_through(torch, net, x, faults)
    print("\ntour: " + ("; ".join(faults) if faults else "all checks hold"))
    return len(faults)


if __name__ == "__main__":
    if "--losses" in sys.argv:
        import torch
        _, _, losses, accuracy = train(torch, lambda step, loss: None)
        print(json.dumps({"losses": losses, "accuracy": accuracy}))
    else:
        sys.exit(main())
