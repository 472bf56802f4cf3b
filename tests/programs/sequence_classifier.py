"""A small program as users write it: embedding, convolution, norms, AdamW, a schedule, batches, clipping, state dicts."""
import copy
import pickle

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.conv = nn.Conv1d(16, 8, 3, padding=1)
        self.batch_norm = nn.BatchNorm1d(8)
        self.layer_norm = nn.LayerNorm(8)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(8, 5)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        h = self.embedding(x).transpose(1, 2)
        h = F.gelu(self.batch_norm(self.conv(h))).mean(-1)
        return self.head(self.dropout(self.layer_norm(h)))


net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5)
data = torch.utils.data.TensorDataset(torch.randint(0, 50, (64, 10)), torch.randint(0, 5, (64,)))
for epoch in range(7):
    for x, y in torch.utils.data.DataLoader(data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y, label_smoothing=0.1)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    schedule.step()
    print(epoch, f"{loss.item():.5f} {norm.item():.3f}", schedule.get_last_lr())

again = Net()
print(again.load_state_dict(net.state_dict()))
net.eval(), again.eval()
x = torch.randint(0, 50, (2, 10))
print(torch.equal(net(x), again(x)), net.calls, copy.deepcopy(net).calls)
print(torch.equal(pickle.loads(pickle.dumps(net.head.weight)), net.head.weight))
print(net)
