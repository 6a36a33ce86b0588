# ruff: noqa: E501 (lines as they were printed)
"""More excerpts of training logs, chosen because they differ from the usual ones; see real_logs.py."""

from .log_sample import Sample

_END = "number of skipped iterations:   0 | number of nan iterations:   0 |"


def _titan(begin: str, rows: tuple[tuple[int, int], ...]) -> str:
    return "".join(
        f"{begin}step: {at:2}  loss:  8.0277  grad_norm:  1.4604  memory:  1.21GiB(0.86%)  tps: "
        f"{tps:,}  tflops: 0.41  mfu: 0.04%\n"
        for at, tps in rows
    )


SAMPLES = (
    Sample(
        "megatron-4090", "a vendor's guide to training on 4090 GPUs, Megatron-LM r0.10.0",
        "[Rank 2] (after 1 iterations) memory (MB) | allocated: 9334.3 | max allocated: 12680.6 | "
        "reserved: 13236.0 | max reserved: 13236.0[Rank 6] (after 1 iterations) memory (MB) | "
        "allocated: 10850.6 | max allocated: 10850.7 | reserved: 11000.0 | max reserved: 11000.0\n\n"
        + "".join(
            f" [2025-08-01 07:19:37] iteration {at:8d}/    5000 | consumed samples: {128 * at:12d} "
            f"| elapsed time per iteration (ms): {ms} | throughput per GPU (TFLOP/s/GPU): 117.5 | "
            "learning rate: 6.976744E-08 | global batch size:   128 | lm loss: 1.043863E+01 | loss "
            f"scale: 1.0 | grad norm: 26.203 | {_END}\n"
            for at, ms in enumerate((19138.8, 12936.1, 12978.1, 13014.1, 13076.0, 13074.7, 13081.8,
                                     13068.7, 13071.2, 13065.4), 1)
        ),
        {"iterations": 10, "global_batch": 128, "median_step_s": 13.0687, "warmup": 1,
         "world_size": None, "nodes": None, "seq_length": None, "tokens_per_s": None},
    ),
    Sample(
        "megatron-no-bar-after-mfu", "FlagPerf, Aquila 7B, README of a vendor",
        "".join(
            f" iteration {at:8d}/   23841 | consumed samples: {1024 * at:12d} | elapsed time per "
            f"iteration (ms): {ms} | mfu: 61.6208 | chip_throughput: 1232.42 /s  learning rate: "
            "1.688E-08 | global batch size:  1024 | lm loss: 1.118129E+01 | loss scale: 65536.0 | "
            f"max_total_norm_before_clip: 0.020 | grad norm: 10.342 | {_END}\n"
            for at, ms in ((9, 425414.7), (10, 420717.4))
        ),
        {"iterations": 10, "global_batch": 1024, "median_step_s": 423.066, "world_size": None},
    ),
    Sample(
        "megatron-torn-grad-norm", "MindCluster guide to resumed training, a Pod's log",
        "".join(
            f"    [2025-06-22 14:47:00] iteration {at:8d}/    5000 | consumed samples: "
            f"{64 * at:12d} | elapsed time per iteration (ms): {ms} | learning rate: 2.500000E-07 |"
            " global batch size:    64 | lm loss: 1.053084E+01 | loss scale: 1.0 | g      rad norm:"
            f" 56.739 | num zeros: 0 | {_END}\n"
            for at, ms in ((10, 1932.5), (11, 1981.0))
        ),
        {"iterations": 11, "global_batch": 64, "median_step_s": 1.95675, "world_size": None},
    ),
    Sample(
        "megatron-cut-lines", "megatron-deepseek-v2-lite README, 8 H100",
        " [2025-11-28 17:17:41] iteration       10/    5000 | consumed samples:        10240 | "
        "elapsed time per iteration (ms): 67423.1 | throughput per GPU (TFLOP/s/GPU): 62.4\n"
        " [2025-11-28 17:23:34] iteration       15/    5000 | consumed samples:        15360 | "
        "elapsed time per iteration (ms): 70593.5 | throughput per GPU (TFLOP/s/GPU): 59.6\n",
        {"iterations": 15, "global_batch": 1024, "median_step_s": 69.0083, "world_size": None},
    ),
    Sample(
        "megatron-moe-infinite-loss-names", "notes on a mixture of experts with Megatron-Core, 2024",
        "".join(
            f" [2024-10-16 04:23:00] iteration {at:8d}/  500000 | consumed samples: {128 * at:12d} "
            f"| elapsed time per iteration (ms): {ms} | learning rate: 4.000000E-07 | global batch "
            "size:   128 | lm loss: 1.177651E+01 | load_balancing_loss: 1.008666E+00 | loss scale: "
            f"1.0 | grad norm: 0.493 | {_END}\n"
            for at, ms in ((2, 1811.8), (3, 1782.9))
        ),
        {"iterations": 3, "global_batch": 128, "median_step_s": 1.79735, "world_size": None},
    ),
    Sample(
        "megatron-memory-then-dots", "notes on Megatron-LM with two ranks, 2023",
        "[Rank 0] (after 100 iterations) memory (MB) | allocated: 2040.2 | max allocated: 7253.2 | "
        "reserved: 7622.0 | max reserved: 7622.0\n"
        " iteration      200/    5000 | consumed samples:         3200 | elapsed time per iteration "
        "(ms): 1082.6 | learning rate: 8.672E-06 | global batch size:    16 | lm loss: "
        f"8.440352E+00 | loss scale: 262144.0 | grad norm: 3.089 | {_END}\n...\n"
        " iteration     1000/    5000 | consumed samples:        16000 | elapsed time per iteration "
        "(ms): 1109.8 | learning rate: 4.617E-05 | global batch size:    16 | lm loss: "
        f"5.200860E+00 | loss scale: 262144.0 | grad norm: 1.947 | {_END}\n",
        {"iterations": 1000, "global_batch": 16, "median_step_s": 1.0962, "world_size": None},
    ),
    Sample(
        "megatron-tok-s-gpu", "a sweep of Megatron and torchtitan on GH200, its parser's example",
        "[default3]: [2026-03-25 13:37:04] iteration       80/     100 | consumed samples:         "
        "10240 | elapsed time per iteration (ms): 1548.1 | mem usages: 0.8131 | throughput per GPU "
        "(TFLOP/s/GPU): 57.6 | Tokens per second per GPU (Tok/s/GPU): 2645.8 | learning rate: "
        f"2.5E-06 | global batch size:   128 | lm loss: 1.95E+00 | {_END}\n"
        "using world size: 128, data-parallel size: 128\n",
        {"iterations": 80, "global_batch": 128, "median_step_s": 1.5481, "seq_length": None},
    ),
    Sample(
        "gpt-neox", "EleutherAI/gpt-neox logging.py (line), figures of a guide to pre-training",
        "".join(
            f" samples/sec: 51.234 | iteration {at:8d}/      50 | elapsed time per iteration (ms): "
            f"{ms} | learning rate: 1.234E-04 | approx flops per GPU: 150.3TFLOPS | lm_loss: "
            f"7.123456E+00 | {_END}\n"
            for at, ms in ((10, 19987.6), (20, 19876.5))
        ),
        {"iterations": 20, "median_step_s": 19.93205, "world_size": None, "seq_length": None},
    ),
    Sample(
        "flagscale-ppu", "FlagScale guide, 8 cards, last rank",
        "[default7]: [2026-09-08 20:31:37.112485] iteration      561/ 7629408 | consumed samples:  "
        "      17952 | elapsed time per iteration (ms): 1510.4 | throughput per GPU (TFLOP/s/GPU): "
        "54.1 | learning rate: 3.000000E-03 | global batch size:    32 | lm loss: 4.858129E-02 | "
        f"loss scale: 1.0 | grad norm: 0.027 | num zeros: 3.0 | params norm: 967.809 | {_END}\n",
        {"iterations": 561, "global_batch": 32, "median_step_s": 1.5104, "world_size": None},
    ),
    Sample(
        "torchtitan-2025-11", "a cluster's application tests, torchtitan on H200",
        "+ torchrun --nproc_per_node=8 --rdzv_backend c10d --local-ranks-filter 0 --role rank --tee "
        "3 -m torchtitan.train\n"
        "[rank0]:[titan] 2025-11-25 19:44:55,287 - root - INFO - Building 1-D device mesh with "
        "['dp_shard'], [8]\n"
        "[rank0]:[titan] 2025-11-25 19:44:58,595 - root - INFO - Model llama3 debugmodel size: "
        "6,163,712 total parameters\n"
        "[rank0]:[titan] 2025-11-25 19:44:58,838 - root - INFO - Trainer is initialized with local "
        "batch size 8, global batch size 64, gradient accumulation steps 1, sequence length 2048, "
        "total steps 10 (warmup 2)\n"
        "[rank0]:[titan] 2025-11-25 19:44:58,838 - root - INFO - Training starts at step 1\n"
        + _titan("[rank0]:[titan] 2025-11-25 19:45:01,441 - root - INFO - ", ((1, 5756),))
        + "[rank0]:[titan] 2025-11-25 19:45:01,441 - root - INFO - Synchronizing and adjusting "
        "timeout for all ProcessGroups to 0:01:40\n"
        + _titan(
            "[rank0]:[titan] 2025-11-25 19:45:01,496 - root - INFO - ",
            ((2, 301092), (3, 359546), (4, 347712), (5, 338287), (6, 317373), (7, 329413),
             (8, 364703), (9, 351177), (10, 324245)),
        )
        + "[rank0]:[titan] 2025-11-25 19:45:03,885 - root - INFO - Training completed\n",
        {"iterations": 10, "global_batch": 64, "seq_length": 2048, "world_size": 8, "dp": 8,
         "tp": 1, "pp": 1, "median_step_s": 16384 / 338287, "tokens_per_s": 8 * 338287,
         "warmup": 1},
    ),
    Sample(
        "torchtitan-rates-only", "a study of Qwen3-VL in torchtitan, text only",
        _titan(
            "[rank0]:[titan] 2025-12-17 01:18:26,708 - root - INFO - ",
            ((1, 945), (2, 5970), (3, 6585), (4, 6580), (5, 6586)),
        ),
        {"iterations": 5, "median_step_s": None, "world_size": None, "global_batch": None,
         "tokens_per_s": None},
    ),
    Sample(
        "torchtitan-no-tflops", "pytorch/ao tutorial, MXFP8 with experts",
        "".join(
            f"    [rank0]:[titan] 2026-01-29 10:15:32,145 - root - INFO - step: {at:3}  loss: "
            f"11.8432  memory: 45.23GiB(47.65%)  tps: {tps:,}\n"
            for at, tps in ((1, 512), (10, 21734), (20, 21902), (30, 21511))
        ),
        {"iterations": 30, "median_step_s": None, "world_size": None, "tokens_per_s": None},
    ),
    Sample(
        "torchtitan-fork-images", "a fork of torchtitan for images, 2024",
        "[rank0]:2024-12-13 17:29:23,398 - root - INFO - step: 30  loss:  1.7148  memory: "
        "14.91GiB(18.82%)  wps: 48,655  mfu: 13.87% it/s: 0.37 im/s: 5.94\n",
        {"iterations": 30, "median_step_s": None, "world_size": None, "tokens_per_s": None},
    ),
    Sample(
        "nemo-b200", "NVIDIA dgxc-benchmarking, Llama 3.1 8B on 8 B200",
        "[7] NVIDIA B200 | 68°C, 100 % | 125170 / 183359 MB | root(125156M)\n\n"
        + "".join(
            f"Training epoch 0, iteration {at}/99 | lr: 6.897e-06 | global_batch_size: 128 | "
            f"global_step: {at} | max_memory_reserved: 127785762816 | max_memory_allocated: "
            f"115792977920 | reduced_train_loss: 11.96 | train_step_timing in s: {s} | "
            f"TFLOPS_per_GPU: 1.249e+03 | consumed_samples: {128 * (at + 1)}\n"
            for at, s in ((45, 6.08), (46, 6.061))
        ),
        {"iterations": 47, "global_batch": 128, "median_step_s": 6.0705, "world_size": None,
         "seq_length": None, "tokens_per_s": None},
    ),
    Sample(
        "nemo-esm2", "aws-samples, ESM-2 with BioNeMo on 8 H100",
        "".join(
            f"{before}0: Training epoch 0, iteration {at}/99 | lr: 5.6e-06 | global_batch_size: 32 "
            f"| global_step: {at} | reduced_train_loss: 2.778 | train_step_timing in s: {s} | "
            f"consumed_samples: {32 * (at + 1)} | val_loss: 2.861 | val_ppl: 17.57\n"
            for before, at, s in (("", 28, 0.189), (" ", 29, 0.1903))
        ),
        {"iterations": 30, "global_batch": 32, "median_step_s": 0.18965, "world_size": None},
    ),
    Sample(
        "nemo-tokens-per-gpu", "a vendor's guide to Nemotron pre-training",
        "".join(
            f"[2025-10-17T11:33:02+08:00] Training epoch 0, iteration {at}/999 | lr: 0.0001758 | "
            f"global_batch_size: 32 | global_step: {at} | reduced_train_loss: 2.792 | "
            f"train_step_timing in s: {s} | tokens_per_sec_per_gpu: {rate} | consumed_samples: "
            f"{32 * (at + 1)} | val_loss: 3.624\n"
            for at, s, rate in ((527, 2.389, "6.859e+03"), (528, 2.443, "6.706e+03"))
        ),
        {"iterations": 529, "global_batch": 32, "median_step_s": 2.416, "world_size": None,
         "seq_length": None, "tokens_per_s": None},
    ),
    Sample(
        "nemo-wrapped", "a guide to NeMo's performance scripts, one line in three",
        "# mbs_128gbs/0 Training epoch 0, iteration 10/14 | lr: 1.649e-06 | global_batch_size: 128\n"
        "| global_step: 10 | max_memory_reserved: 140129599488 | max_memory_allocated: 107693703168\n"
        "| reduced_train_loss: 11.97 | train_step_timing in s: 3.684 | TFLOPS_per_GPU: 1.831e+03 | "
        "consumed_samples: 1408\n",
        {"world_size": None, "tokens_per_s": None, "global_batch": None, "median_step_s": None},
    ),
    Sample(
        "nanotron-2025-tokens", "notes on a Qwen2-MoE in nanotron, two GPUs: its batch is in tokens",
        "iteration: 91 / 100 | consumed_tokens: 46.6K | time_per_iteration_ms: 49.8 | "
        "tokens_per_sec: 10.3K | tokens_per_sec_per_gpu: 5.14K | global_batch_size: 512 | "
        "grad_norm: 144K | lm_loss: 9.2 | lr: 3.3e-05 | model_tflops_per_gpu: 0.712\n",
        {"iterations": 91, "median_step_s": 0.0498, "world_size": 2, "global_batch": None,
         "tokens_per_s": 10300},
    ),
    Sample(
        "nanotron-2025-eta", "README of a 350M model trained on Leonardo",
        "".join(
            f"12/21 01:39:51 [INFO|DP=0|TP=0|lrdn0007]: iteration: {at} / 1500000 | "
            f"consumed_tokens: 480B | time_per_iteration_ms: {ms} | tokens_per_sec: {rate} | "
            f"tokens_per_sec_per_gpu: {one} | global_batch_size: 1.6M | grad_norm: 0.112 | lm_loss:"
            " 2.04 | lr: 0.0001 | model_tflops_per_gpu: 15.4 | eta: 131 days, 1:45:39\n"
            for at, ms, rate, one in ((211364, "8.79K", "182K", 699), (211365, "8.74K", "183K", 703))
        ),
        {"iterations": 211365, "median_step_s": 8.765, "global_batch": None, "world_size": None,
         "tokens_per_s": 183000},
    ),
    Sample(
        "nanotron-2024-start", "notes on nanotron, tiny Llama on one GPU",
        "08/31/2024 14:37:26 [INFO|DP=0|PP=0|TP=0]: [Start training] datetime: 2024-08-31 14:37:26 | "
        "mbs: 2 | grad_accum: 1 | global_batch_size: 2 | sequence_length: 256 | train_steps: 15 | "
        "start_iteration_step: 0 | consumed_train_samples: 0\n"
        + "".join(
            f"08/31/2024 14:37:31 [INFO|DP=0|PP=0|TP=0]: iteration: {at} / 15 | consumed_tokens: "
            f"{tokens} | elapsed_time_per_iteration_ms: {ms} | tokens_per_sec: {rate} | "
            f"tokens_per_sec_per_gpu: {rate} | global_batch_size: 2 | lm_loss: 5.32 | lr: 0.00015 |"
            " model_tflops_per_gpu: 1.87e-05 | hardware_tflops_per_gpu: 1.87e-05 | grad_norm: 2.96\n"
            for at, tokens, ms, rate in (
                (1, "512", "4.71K", "109"), (2, "1.02K", "11.8", "43.2K"), (3, "1.54K", "10", "51.2K"),
                (4, "2.05K", "10.2", "50.2K"), (5, "2.56K", "9.15", "55.9K"),
                (6, "3.07K", "9.09", "56.3K"), (7, "3.58K", "8.93", "57.3K"),
                (8, "4.1K", "8.95", "57.2K"), (9, "4.61K", "8.73", "58.7K"))
        ),
        {"iterations": 9, "global_batch": 2, "seq_length": 256, "world_size": 1, "warmup": 2},
    ),
    Sample(
        "maxtext-devices", "google cluster toolkit, Llama 3.1 on 64 TPU7x devices",
        "Num_devices: 64, shape (1, 1, 64, 1, 1, 1, 1, 1, 1, 1, 1, 1)\n...\n"
        "completed step: 4, seconds: 1.182, TFLOP/s/device: 167.154, Tokens/s/device: 3464.384, "
        "loss: 10.187\n"
        "completed step: 5, seconds: 1.186, TFLOP/s/device: 166.597, Tokens/s/device: 3452.840, "
        "loss: 9.184\n",
        {"iterations": 6, "world_size": 64, "median_step_s": 1.184, "tokens_per_s": 221383},
    ),
    Sample(
        "maxtext-128-gpus", "NVIDIA dgxc-benchmarking, Llama 3 70B with MaxText on 128 GPUs",
        "completed step: 49, seconds: 15.570, TFLOP/s/device: 506.597, Tokens/s/device: 1052.266, "
        "total_weights: 2097152, loss: 0.000\n",
        {"iterations": 50, "world_size": 128, "median_step_s": 15.57, "tokens_per_s": 134692},
    ),
    Sample(
        "maxtext-512-chips", "AI-Hypercomputer/tpu-recipes, Llama 3.1 405B on v5p-1024",
        "completed step: 10, seconds: 131.474, TFLOP/s/device: 314.530, Tokens/s/device: 124.618, "
        "total_weights: 8388608, loss: 4.453\n",
        {"iterations": 11, "world_size": 512, "median_step_s": 131.474, "tokens_per_s": 63804},
    ),
    Sample(
        "maxtext-comment-2024", "a log of March 2024 kept in comments of a script",
        "".join(
            f"# completed step: {at}, seconds: {s:.3f}, TFLOP/s/device: {f}, loss: 1.966\n"
            for at, s, f in ((0, 36.35, 28.423), (1, 176.734, 5.846), (2, 3.053, 338.396),
                             (3, 3.585, 288.187), (4, 3.603, 286.754))
        ),
        {"iterations": 5, "median_step_s": 3.585, "warmup": 2, "world_size": None,
         "tokens_per_s": None},
    ),
    Sample(
        "deepspeed-all-skipped", "a tutorial's output, DeepSpeed 0.10",
        "[2023-08-02 00:41:17,935] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! "
        "Rank 0 Skipping step. Attempted loss scale: 8388608, reducing to 4194304\n"
        "[2023-08-02 00:41:17,935] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=10, "
        "lr=[0.0001], mom=[(0.9, 0.999)]\n"
        "[2023-08-02 00:41:17,936] [INFO] [timer.py:215:stop] epoch=0/micro_step=10/global_step=10,"
        " RunningAvgSamplesPerSec=220.69530887096045, CurrSamplesPerSec=222.88787331278564, "
        "MemAllocated=0.07GB, MaxMemAllocated=1.36GB\n",
        {"iterations": 10, "skipped": 10, "median_step_s": None, "global_batch": None,
         "world_size": None},
    ),
    Sample(
        "deepspeed-micro-steps", "a course on fine-tuning, DeepSpeed with accumulation",
        "  gradient_accumulation_steps .. 4\n  train_batch_size ............. 64\n"
        "  train_micro_batch_size_per_gpu  4\n  world_size ................... 4\n"
        "[2023-11-07 01:55:23,714] [INFO] [timer.py:260:stop] epoch=0/micro_step=40/global_step=10,"
        " RunningAvgSamplesPerSec=25.025771473496132, CurrSamplesPerSec=25.704280480541442, "
        "MemAllocated=4.32GB, MaxMemAllocated=38.49GB\n...\n"
        "[2023-11-07 02:13:41,417] [INFO] [timer.py:260:stop] epoch=0/micro_step=1800/global_step="
        "450, RunningAvgSamplesPerSec=25.72280894083983, CurrSamplesPerSec=25.811997512605966, "
        "MemAllocated=4.32GB, MaxMemAllocated=38.49GB\n",
        {"iterations": 450, "global_batch": 64, "world_size": 4, "median_step_s": 2.48466},
    ),
    Sample(
        "deepspeed-hf-header", "github.com/deepspeedai/DeepSpeed/issues/1436",
        "[INFO|trainer.py:1016] 2021-10-08 20:03:14,332 >>   Instantaneous batch size per device = "
        "8\n[INFO|trainer.py:1017] 2021-10-08 20:03:14,332 >>   Total train batch size (w. parallel"
        ", distributed & accumulation) = 8\n"
        "  0%|                 | 0/1000 [00:00<?, ?it/s][2021-10-08 20:03:15,649] [INFO] [logging."
        "py:68:log_dist] [Rank 0] rank=0 time (ms) | forward_microstep: 435.69 | "
        "backward_microstep: 744.13 | backward_inner_microstep: 513.94 | "
        "backward_allreduce_microstep: 230.14 | step_microstep: 1.00\n"
        "[2021-10-08 20:03:15,649] [INFO] [logging.py:68:log_dist] [Rank 0] rank=0 time (ms) | "
        "forward: 435.67 | backward: 744.11 | backward_inner: 513.92 | backward_allreduce: 230.11 |"
        " step: 0.98\n",
        {"median_step_s": 1.18076, "world_size": None},
    ),
    Sample(
        "hf-mean-batch-is-whole", "a course on LoRA: 225 samples in batches of 16, so 15 a step",
        "{'loss': '0.02708', 'grad_norm': 'nan', 'learning_rate': '3.381e-07', 'epoch': '2'}\n"
        "{'train_runtime': '426.5', 'train_samples_per_second': '1.055', 'train_steps_per_second': "
        "'0.07', 'train_loss': '0.6266', 'epoch': '2'}\n100% 30/30 [07:06<00:00, 14.22s/it]\n",
        {"iterations": 30, "mean_step_s": 14.2167, "global_batch": None, "world_size": None,
         "tokens_per_s": None},
    ),
    Sample(
        "hf-train-output", "README of a fine-tuned R1 distillation, two 3060",
        "TrainOutput(global_step=103044, training_loss=1.2967534739197164, metrics={'train_runtime'"
        ": 442653.9183, 'train_samples_per_second': 0.931, 'train_steps_per_second': 0.233, "
        "'total_flos': 9.507085746142446e+18, 'train_loss': 1.2967534739197164, 'epoch': "
        "0.9999951477274381})\n",
        {"iterations": 103044, "mean_step_s": 4.295776, "global_batch": 4, "world_size": None},
    ),
    Sample(
        "hf-wrapped-with-bar", "a test of a training script, its docstring",
        "        {'train_runtime': 83919.1656, 'train_samples_per_second': 6.434,\n"
        "        'train_steps_per_second': 6.434, 'train_loss': 0.17590146832617198,\n"
        "        'epoch': 3.0}\n\n        100%|██████████| 539934/539934 [23:18:39<00:00,  6.43it/s]\n",
        {"iterations": 539934, "mean_step_s": 0.155425, "global_batch": 1, "world_size": None},
    ),
    Sample(
        "hf-kubernetes-mlflow", "a guide to fine-tuning on Kubernetes",
        "{'loss': 0.8612, 'grad_norm': 2.9606473445892334, 'learning_rate': 8.39e-09, 'epoch': 1.0}\n"
        "{'train_runtime': 247.4258, 'train_samples_per_second': 4.042, 'train_steps_per_second': "
        "2.021, 'train_loss': 1.1304109792709351, 'epoch': 1.0}\n"
        "100%|██████████| 500/500 [04:07<00:00,  2.02it/s]\n"
        "Loading checkpoint shards: 100%|██████████| 3/3 [00:03<00:00,  1.32s/it]\n",
        {"iterations": 500, "mean_step_s": 0.494852, "global_batch": 2, "world_size": None},
    ),
    Sample(
        "hf-short-last-batch", "a log of a language model trained for ten epochs",
        "{'train_runtime': 177027.6262, 'train_samples_per_second': 0.705, "
        "'train_steps_per_second': 0.022, 'train_loss': 4.349117130757597, 'epoch': 10.0}\n"
        "100%|██████████████| 3910/3910 [49:10:27<00:00, 45.28s/it]\n",
        {"iterations": 3910, "mean_step_s": 45.2756, "world_size": None,
         "global_batch": 32},  # with 31.9 samples a step, the only one with 391 steps an epoch
    ),
    Sample(
        "hf-tensor-parallel", "notes on Trainium, 32 cores with tensor_parallel_size 4",
        "MALLOC_ARENA_MAX=64 torchrun --nproc_per_node=32 run_clm.py --bf16 True "
        "--per_device_train_batch_size 10 --tensor_parallel_size 4 --max_steps 10 "
        "--gradient_accumulation_steps 8\n"
        "***** Running training *****\n  Num examples = 346,940\n  Num Epochs = 1\n"
        "  Instantaneous batch size per device = 10\n"
        "  Total train batch size (w. parallel, distributed & accumulation) = 640\n"
        "  Gradient Accumulation steps = 8\n  Total optimization steps = 10\n"
        "  Number of trainable parameters = 275,081,216\n"
        "{'loss': nan, 'learning_rate': 6e-06, 'epoch': 0.0}7/10 [00:31<00:08,  2.71s/it]\n"
        "100%|██████████| 10/10 [00:36<00:00,  1.94s/it]\n"
        "{'train_runtime': 36.3738, 'train_samples_per_second': 175.951, 'train_steps_per_second': "
        "0.275, 'train_loss': nan, 'epoch': 0.0}\n",
        {"iterations": 10, "global_batch": 640, "world_size": 32, "mean_step_s": 3.63738},
    ),
    Sample(
        "hf-one-sample-steps", "README of a speech model, 100 steps",
        "{'train_runtime': 40.2698, 'train_samples_per_second': 2.483, 'train_steps_per_second': "
        "2.483, 'train_loss': 23.43394317626953, 'epoch': 1.0}\n",
        {"iterations": 100, "global_batch": 1, "mean_step_s": 0.402698, "world_size": None},
    ),
    Sample(
        "bridge-wrapped", "github.com/NVIDIA-NeMo/Megatron-Bridge/pull/841, wrapped by a terminal",
        " [2025-10-02 22:54:30] iteration       20/      50 | consumed samples:        10240 |\n"
        "elapsed time per iteration (ms): 14260.3 | learning rate: 2.604594E-04 | global batch\n"
        "size:   512 | lm loss: 8.797448E-02 | loss scale: 1.0 | grad norm: 0.170 | number of s\n"
        "kipped iterations:   0 | number of nan iterations:   0 |\n"
        "Step Time : 16.85s GPU utilization: 49.3TFLOP/s/GPU\n",
        {"median_step_s": None, "global_batch": None, "world_size": None, "iterations": None},
    ),
    Sample(
        "torchtitan-mesh-without-batch", "github.com/pytorch/torchtitan/pull/1349",
        "[rank0]:[titan] 2025-06-26 18:12:46,592 - root - INFO - Building 1-D device mesh with "
        "['dp_shard'], [8]                   [rank0]:[titan] 2025-06-26 18:12:46,593 - root - INFO "
        "- [GC] Initial GC collection. 0.00 seconds.\n"
        + _titan(
            "[rank0]:[titan] 2025-06-26 18:23:14,389 - root - INFO - ",
            ((1, 1772), (2, 168877), (3, 175100)),
        ),
        {"iterations": 3, "world_size": 8, "dp": 8, "median_step_s": None, "global_batch": None,
         "tokens_per_s": None},
    ),
)  # fmt: skip
