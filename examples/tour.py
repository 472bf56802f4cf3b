"""The tour: a small digit classifier, trained from generated pictures, with every step checked.

    make demo                 on Taper; with ORACLE=1 each printed loss is compared with PyTorch's from the same seed

Run directly, the same script works on either library: `python examples/tour.py`, or with `import torch` by
`python -m taper examples/tour.py`.
"""
import json
import os
import subprocess
import sys
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
    return losses, accuracy


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
    losses, accuracy = train(torch, report)
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
    print("tour: " + ("; ".join(faults) if faults else "all checks hold"))
    return len(faults)


if __name__ == "__main__":
    if "--losses" in sys.argv:
        import torch
        losses, accuracy = train(torch, lambda step, loss: None)
        print(json.dumps({"losses": losses, "accuracy": accuracy}))
    else:
        sys.exit(main())
