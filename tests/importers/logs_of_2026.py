# ruff: noqa: E501 (lines as they were printed)
"""Excerpts of public logs whose figures were written down before nodewise read them; see real_logs.py."""

import json

from .log_sample import Sample
from .more_real_logs import _titan

_END = "number of skipped iterations:   0 | number of nan iterations:   0 |"
_DS = "[2021-05-25 22:30:04,196] [INFO] [config.py:752:print]   "


def _megatron(
    rows: tuple[tuple[int, float], ...], batch: int, total: int = 1000, begin: str = "",
    after: str = "",
) -> str:  # fmt: skip
    """Iteration lines of Megatron-LM."""
    return "".join(
        f"{begin} iteration {at:8d}/{total:8d} | consumed samples: {batch * at:12d} | elapsed time "
        f"per iteration (ms): {ms} | learning rate: 1.500E-04 | global batch size: {batch:5d} | lm "
        f"loss: 1.115988E+01 | loss scale: 1.0 | grad norm: 0.811 | {_END}\n{after}"
        for at, ms in rows
    )


def _arguments(**values: object) -> str:
    width = max(map(len, values)) + 4
    rows = "".join(
        f"  {name} {'.' * (width - len(name))} {value}\n" for name, value in values.items()
    )
    return f"------------------------ arguments ------------------------\n{rows}-------------------- end of arguments ---------------------\n"


TRAINING = (
    Sample(
        "megatron-llama2-mi300",
        "a guide to Llama 2 on MI300X, the last step",
        "TEE_OUTPUT=1 \\\nMBS=4 \\\nBS=256 \\\nTP=1 \\\nTE_FP8=1 \\\nSEQ_LENGTH=4096 \\\nMODEL_SIZE=7 \\\n"
        "TOTAL_ITERS=50 \\\nbash examples/llama/train_llama2.sh\n<snip>\n"
        " [2025-08-13 03:42:28] iteration       50/      50 | consumed samples:        12800 | elapsed "
        "time per iteration (ms): 10235.8 | mem usages: 0.7494 | throughput per GPU (TFLOP/s/GPU): "
        "590.2 | learning rate: 9.999999E-05 | global batch size:   256 | lm loss: 7.272264E+00 | loss "
        f"scale: 1.0 | grad norm: 1.571 | {_END}\n\nthroughput per GPU: 589.331914893617\nelapsed time "
        "per iteration: 10250.497872340427\ntokens/GPU/s: 12786.891099\nmem usages: 0.7494000000000002\n",
        {"iterations": 50, "global_batch": 256, "median_step_s": 10.2358, "nodes": None},
    ),
    Sample(
        "primus-two-figures",
        "a test of a log collector, AMD Primus on 32 ranks",
        "[20251121 12:10:29][rank-31/32][INFO ] [--------trainer.py:2488] :  iteration    12125/   36000 "
        "| consumed samples:      3104000 | elapsed time per iteration (ms): 2701.3/2712.7 | hip mem "
        "usage/free/total/usage_ratio: 227.35GB/28.63GB/255.98GB/88.81% | throughput per GPU "
        "(TFLOP/s/GPU): 210.5/217.3 | tokens per GPU (tokens/s/GPU): 12130.4/12525.5 | learning rate: "
        f"1.587349E-04 | global batch size:   256 | lm loss: 2.352391E+00 | loss scale: 1.0 | {_END}\n",
        {"iterations": 12125, "global_batch": 256, "median_step_s": 2.7013, "seq_length": None},
    ),
    Sample(
        "megatron-mask-columns",
        "notes on MaskLLM, Llama 3 8B, columns after the usual ones",
        "iteration      496/    2000 | consumed samples:       126976 | elapsed time per iteration (ms): "
        "219427.1 | learning rate: 4.351E-04 | global batch size:   256 | lm loss: 2.547412E+00 | reg "
        f"loss: 8.445261E+03 | loss scale: 1.0 | grad norm: 0.035 | num zeros: 5178.0 | {_END} "
        "scale_multiplier: 199.000 | temperature: 3.022 | max_prob: 0.586 | mask_difference: 0.082 |\n"
        "\n validation loss at iteration 600 | lm loss value: 2.674135E+00 | lm loss PPL: 1.449981E+01 | "
        "reg loss value: 1.329212E+04 | reg loss PPL: 4.851652E+08 | \n\n"
        " iteration      605/    2000 | consumed samples:       154880 | elapsed time per iteration (ms): "
        "218396.8 | learning rate: 4.351E-04 | global batch size:   256 | lm loss: 2.547412E+00 | reg "
        f"loss: 8.445261E+03 | loss scale: 1.0 | {_END} temperature: 3.022 |\n",
        {"iterations": 605, "global_batch": 256, "median_step_s": 218.912, "world_size": None},
    ),
    Sample(
        "modellink-from-step-2",
        "a visualiser of training on NPUs, its example",
        _arguments(train_iters=5000, global_batch_size=16, seq_length=4096)
        + _megatron(((2, 54568.1), (3, 8493.8), (4, 2878.8), (5, 2881.4), (6, 2882.2)), 16, 5000),
        {
            "iterations": 6,
            "global_batch": 16,
            "seq_length": 4096,
            "median_step_s": 2.8814,
            "warmup": 2,
            "tokens_per_s": 22744.5,
            "world_size": None,
        },
    ),
    Sample(
        "megatron-core-0.9-checkpoint-error",
        "a tutorial on Megatron-LM at KISTI, September 2024",
        " [2024-09-14 19:44:19] iteration       10/     200 | consumed samples:          160 | elapsed "
        "time per iteration (ms): 995.3 | learning rate: 0.000000E+00 | global batch size:    16 | loss "
        "scale: 8388608.0 | number of skipped iterations:  10 | number of nan iterations:   0 |\n"
        " [2024-09-14 19:44:24] iteration       20/     200 | consumed samples:          320 | elapsed "
        "time per iteration (ms): 457.6 | learning rate: 2.343750E-07 | global batch size:    16 | lm "
        "loss: 1.105231E+01 | loss scale: 262144.0 | number of skipped iterations:   5 | number of nan "
        "iterations:   0 |\nNumber of parameters in transformer layers in billions:  0.30\nNumber of "
        "parameters in embedding layers in billions: 0.05\nTotal number of parameters in billions: 0.35\n"
        "Theoretical memory footprints: weight and optimizer=1519.18 MB\n[Rank 2] (after 20 iterations) "
        "memory (MB) | allocated: 1761.685546875 | max allocated: 2589.13525390625 | reserved: 2608.0 | "
        "max reserved: 2608.0\n[Rank 0] (after 20 iterations) memory (MB) | allocated: 1761.685546875 | "
        "max allocated: 2589.13525390625 | reserved: 2608.0 | max reserved: 2608.0\n"
        + _megatron(((30, 464.2), (40, 437.8), (50, 436.9)), 16, 200, " [2024-09-14 19:44:37]")
        + "saving checkpoint at iteration      50 to checkpoints/gpt2_345m_dist_mp in torch_dist format\n"
        "[rank2]: Traceback (most recent call last):\n[rank2]: AttributeError: 'NoneType' object has no "
        "attribute 'shape'\n  exitcode  : 1 (pid: 11160)\n  rank      : 2 (local_rank: 2)\n",
        {
            "iterations": 50,
            "global_batch": 16,
            "median_step_s": 0.4477,
            "warmup": 1,
            "skipped": 15,
            "world_size": None,
            "nodes": None,
        },
    ),
    Sample(
        "megatron-without-nan-count",
        "a test of an analyser of two nodes with 16 GPUs",
        " [2026-07-18 02:41:45.146306] iteration        4/       4 | consumed samples:           64 | "
        "elapsed time per iteration (ms): 9347.3 | throughput per GPU (TFLOP/s/GPU): 81.7 | learning "
        "rate: 1.000000E-04 | global batch size:    16 | lm loss: 1.831113E+01 | loss scale: 1.0 | grad "
        "norm: 16.288 | number of skipped iterations:   0 |\n",
        {"iterations": 4, "global_batch": 16, "median_step_s": 9.3473, "seq_length": None},
    ),
    Sample(
        "bigscience-104b",
        "bigscience-workshop/bigscience chronicles, batch of 16 at the beginning",
        "iteration     3707/  128728 | consumed samples:        59312 | consumed tokens:    121470976 | "
        "elapsed time per iteration (s): 15.23 | learning rate: 1.944E-05 | global batch size:    16 | lm "
        f"loss: 5.396257E+00 | grad norm: 0.765 | num zeros: 0.0 | {_END} samples per second: 1.051 | "
        "TFLOPs: 8.04 |\n",
        {"iterations": 3707, "global_batch": 16, "median_step_s": 15.23, "world_size": None},
    ),
    Sample(
        "bigscience-176b",
        "bigscience-workshop/bigscience chronicles, 176B, one of eight ranks",
        " [default7]: iteration    12695/  115311 | consumed samples:      9841584 | consumed tokens:  "
        "20155564032 | elapsed time per iteration (s): 105.22 | learning rate: 5.969E-05 | global batch "
        f"size:  2048 | lm loss: 2.463556E+00 | grad norm: 0.174 | num zeros: 0.0 | {_END} samples per "
        "second: 19.463 | TFLOPs: 149.02 |\n",
        {"iterations": 12695, "global_batch": 2048, "median_step_s": 105.22, "world_size": None},
    ),
    Sample(
        "megatron-t5-three-lines",
        "README of a T5 study, one line printed as three",
        "iteration       20/    1000 | consumed samples:         320 | elapsed time per iteration (ms): "
        "1234.5 |\n  learning rate: 9.800E-05 | global batch size:    16 | lm loss: 3.456789E+00 |\n"
        "  number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        "  samples per second: 12.345 | TFLOPs: 56.78\n",
        {"iterations": 20, "global_batch": 16, "median_step_s": 1.2345, "world_size": None},
    ),
    Sample(
        "megatron-tgs-without-sequence",
        "bigscience scripts, a line of Megatron-LM with a label",
        "7:  iteration        4/   30517 | consumed samples:           64 | elapsed time per iteration "
        "(ms): 15232.8 | learning rate: 6.000E-07 | global batch size:    16 | lm loss: 1.183278E+01 | "
        f"loss scale: 1.0 | grad norm: 36.543 | {_END} samples per second: 1.050 | tokens per gpu per "
        "second (tgs): 537.788 | TFLOPs: 25.55 |\n",
        {
            "iterations": 4,
            "global_batch": 16,
            "median_step_s": 15.2328,
            "world_size": None,
            "seq_length": None,
        },
    ),
    Sample(
        "bigscience-megatron-perf-n16",
        "bigscience-workshop/bigscience, meg_gpt2_perf_n16.out, shortened",
        "using world size: 64, data-parallel-size: 1, tensor-model-parallel size: 4, pipeline-model-"
        "parallel size: 16 \nusing torch.float16 for parameters ...\n"
        + _arguments(
            data_parallel_size=1,
            encoder_seq_length=1024,
            global_batch_size=1024,
            hidden_size=8192,
            log_interval=1,
            max_position_embeddings=1024,
            micro_batch_size=4,
            num_attention_heads=32,
            num_layers=64,
            pipeline_model_parallel_size=16,
            retriever_seq_length=256,
            seq_length=1024,
            tensor_model_parallel_size=4,
            train_iters=1000,
            world_size=64,
        )
        + "setting number of micro-batches to constant 256\n > padded vocab (size: 50257) with 431 dummy "
        "tokens (new size: 50688)\n > number of parameters on (tensor, pipeline) model parallel rank (2, "
        "1): 805560320\ntime (ms) | load-checkpoint: 0.47\ntraining ...\ntime (ms) | model-and-optimizer-"
        "setup: 336.31 | train/valid/test-data-iterators-setup: 494.63\n"
        + "".join(
            f" iteration {at:8d}/    1000 | consumed samples: {1024 * at:12d} | elapsed time per "
            f"iteration (ms): {ms} | learning rate: 0.000E+00 | global batch size:  1024 | loss scale: "
            "4294967296.0 | number of skipped iterations:   1 | number of nan iterations:   0 |\n"
            f"time (ms) | forward-compute: {forward} | forward-recv: {receive} | backward-compute: "
            f"{backward} | backward-send: 2.90 | backward-send-forward-recv: {send} | backward-params-"
            f"all-reduce: 26.06 | backward-embedding-all-reduce: {embedding} | optimizer-copy-to-main-"
            f"grad: 8.18 | optimizer-unscale-and-check-inf: {check} | optimizer: {optimizer} | "
            "batch-generator: 182.63\n"
            for at, ms, forward, receive, backward, send, embedding, check, optimizer in (
                (1, 155483.8, 32054.16, 19581.85, 87380.53, 11878.08, 4181.82, 333.72, 342.01),
                (2, 129028.8, 31749.74, 1493.80, 88911.73, 2267.37, 4492.62, 42.71, 51.07),
                (3, 128891.5, 31888.01, 1498.23, 89444.82, 1766.94, 4179.82, 42.35, 50.66),
            )
        ),
        {
            "world_size": 64,
            "tp": 4,
            "pp": 16,
            "dp": 1,
            "seq_length": 1024,
            "global_batch": 1024,
            "iterations": 3,
            "median_step_s": 129.0288,
            "skipped": 3,
            "tokens_per_s": 8126.7,
        },
    ),
    Sample(
        "bigscience-3d-lm-loss-with-hyphen",
        "bigscience-workshop/bigscience, gpt2-meg-ds-3d, ds-on, shortened",
        "using world size: 64, data-parallel-size: 1, tensor-model-parallel size: 4, pipeline-model-"
        "parallel size: 16 \n"
        + _arguments(
            data_parallel_size=1,
            deepspeed=True,
            encoder_seq_length=1024,
            global_batch_size=1024,
            hidden_size=8192,
            micro_batch_size=4,
            num_layers=64,
            pipeline_model_parallel_size=16,
            seq_length=1024,
            tensor_model_parallel_size=4,
            train_iters=1000,
            world_size=64,
            zero_stage=0,
        )
        + _megatron(
            (
                (40, 125643.3),
                (41, 137845.6),
                (42, 136653.4),
                (43, 133720.0),
                (44, 134441.1),
                (45, 137502.0),
                (46, 131717.1),
                (47, 134668.9),
                (48, 134516.4),
                (49, 136328.8),
            ),
            1024,
            after="time (ms)\n",
        ).replace("lm loss:", "lm-loss:"),
        {
            "world_size": 64,
            "tp": 4,
            "pp": 16,
            "dp": 1,
            "seq_length": 1024,
            "global_batch": 1024,
            "iterations": 49,
            "median_step_s": 134.593,
            "warmup": 0,
        },
    ),
    Sample(
        "bigscience-3d-old",
        "bigscience-workshop/bigscience, gpt2-meg-ds-3d-old, shortened",
        "using world size: 64 and model-parallel size: 4\nusing torch.float16 for parameters ...\n"
        + _arguments(
            batch_size=4,
            deepspeed=True,
            gas=256,
            hidden_size=8192,
            log_interval=1,
            max_position_embeddings=1024,
            model_parallel_size=4,
            num_attention_heads=32,
            num_layers=64,
            pipe_parallel_size=16,
            seq_length=1024,
            train_iters=1000,
            world_size=64,
            zero_stage=0,
        )
        + "> initializing model parallel with size 4\nMPU DP: [0]\nMPU PP: [0, 4, 8, 12, 16, 20]\n"
        "r7i4n4:1767:1902 [1] NCCL INFO 32 coll channels, 32 p2p channels, 32 p2p channels per peer\n"
        "r7i1n3:4942:5142 [1] NCCL INFO comm 0x14e4a0001060 rank 1 nranks 16 cudaDev 1 busId 1c000\n"
        "steps: 1 loss: 12.7902 iter time (s): 150.471 samples/sec: 6.805\n"
        " iteration        1/    1000 | elapsed time per iteration (ms): 150471.3 | learning rate: "
        f"1.875E-05 | lm loss: 1.279022E+01 | loss scale: 1024.0 | {_END}\n"
        "after 1 iterations memory (MB) | allocated: 12335.4560546875 | max allocated: 19976.07177734375\n"
        "time (ms) | forward: 0.00 | backward: 0.00 | optimizer: 0.00 | batch generator: 0.00\n"
        "[2021-05-27 19:54:20,386] [INFO] [logging.py:60:log_dist] [Rank 0] step=2, skipped=0, "
        "lr=[3.75e-05, 3.75e-05], mom=[(0.9, 0.999), (0.9, 0.999)]\n"
        "steps: 2 loss: 12.8004 iter time (s): 145.206 samples/sec: 7.052\n"
        " iteration        2/    1000 | elapsed time per iteration (ms): 145207.0 | learning rate: "
        f"3.750E-05 | lm loss: 1.280042E+01 | loss scale: 1024.0 | {_END}\n"
        "time (ms) | forward: 0.00 | backward: 0.00 | optimizer: 0.00 | batch generator: 0.00\n",
        {
            "world_size": 64,
            "tp": 4,
            "pp": 16,
            "dp": 1,
            "seq_length": 1024,
            "global_batch": 1024,
            "iterations": 2,
            "median_step_s": 147.839,
        },
    ),
    Sample(
        "bigscience-zero-other-world",
        "bigscience-workshop/bigscience, gpt2-meg-ds-zero, nbs48_ms48, shortened",
        "using world size: 64 and model-parallel size: 4\nusing torch.float16 for parameters ...\n"
        + _arguments(
            batch_size=48,
            deepspeed=True,
            hidden_size=8192,
            max_position_embeddings=1024,
            model_parallel_size=4,
            num_layers=64,
            seq_length=1024,
            train_iters=1000,
            world_size=64,
            zero_stage=3,
        )
        + " > number of parameters on model parallel rank 3            52.005 Billion\n"
        + "".join(
            f"{_DS}{row}\n"
            for row in (
                "gradient_accumulation_steps .. 1",
                "steps_per_print .............. 10",
                "train_batch_size ............. 768",
                "train_micro_batch_size_per_gpu  48",
                "world_size ................... 16",
                "zero_optimization_stage ...... 3",
            )
        )
        + "time (ms) | model and optimizer: 11002.57 | train/valid/test data iterators: 1280.95\n"
        + "".join(
            f" iteration {at:8d}/    1000 | elapsed time per iteration (ms): {ms} | learning rate: "
            f"1.875E-05 | lm loss: 1.252221E+01 | loss scale: 1024.0 | {_END}\ntime (ms) | forward: "
            f"{forward} | backward: {backward} | backward-backward: {backward} | backward-allreduce: "
            "0.00 | optimizer: 386.53 | batch generator: 13.17\nEffective Tera Flops per GPU: 41.94 and "
            "total parameters 52.005 B\n"
            for at, ms, forward, backward in (
                (1, 121899.8, 35650.91, 85861.86),
                (2, 125912.4, 35255.98, 90266.11),
                (3, 123907.8, 34605.14, 88910.06),
            )
        ),
        {
            "world_size": 64,
            "tp": 4,
            "seq_length": 1024,
            "global_batch": 768,
            "iterations": 3,
            "median_step_s": 123.9078,
            "tokens_per_s": 6346.9,
        },
    ),
    Sample(
        "argonne-two-tflops",
        "argonne-lcf/Megatron-DeepSpeed notes of June 2024, 24 devices of Aurora",
        "    [2024-06-21 10:50:42,168] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 25341.72 | "
        "bwd: 77707.38 | bwd_inner: 75751.84 | bwd_allreduce: 1955.54 | step: 2218.38\n"
        "    [2024-06-21 10:50:42][INFO][training:1609] -  iteration=       1/  317892 | consumed_samples= "
        "        768 | consumed_tokens=     3145728 | elapsed_time_per_iteration_ms=108893.2 | "
        "learning_rate=1.88743e-08 | global_batch_size=  768 | lm loss=11.133188 | loss_scale=1.0 | "
        "actual_seqlen= 4096 | number_of_skipped_iterations=  0 | number_of_nan_iterations=  0 | "
        "samples_per_second=7.053 | tokens_per_gpu_per_second_tgs=1203.674 | [LM]-TFLOPs=49.66 | "
        "[DS]-TFLOPs=73.32 |\n    [2024-06-21 10:50:42][INFO][utils:190] - [Rank 0] (after 1 iterations) "
        "memory (MB) | allocated: 18243.0 | max allocated: 41299.5\n",
        {
            "world_size": 24,
            "seq_length": 4096,
            "global_batch": 768,
            "iterations": 1,
            "median_step_s": 108.8932,
            "tokens_per_s": 28887.9,
        },
    ),
    Sample(
        "argonne-tgs-without-space",
        "argonne-lcf/Megatron-DeepSpeed notes of April 2024, 24 devices",
        "[2024-04-04 09:09:53,313] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 6567.66 | bwd: "
        "17950.35 | bwd_inner: 17711.19 | bwd_allreduce: 239.11 | step: 1139.29\n"
        "[Rank 0] (after 1 iterations) memory (MB) | allocated: 18244.640625 | max allocated: 41299.5\n"
        " iteration        1/  317892 | consumed samples:           96 | consumed tokens:       393216 | "
        "elapsed time per iteration (ms): 25849.1 | learning rate: 3.000E-04 | global batch size:    96 | "
        f"lm loss: 1.117136E+01 | loss scale: 1.0 | actual seqlen:  4096 | {_END} samples per second: 3.714 "
        "| tokens per gpu per second(tgs): 633.832 | TFLOPs: 38.61 |\n",
        {
            "world_size": 24,
            "seq_length": 4096,
            "global_batch": 96,
            "iterations": 1,
            "median_step_s": 25.8491,
        },
    ),
    Sample(
        "megatron-deepspeed-quoted",
        "a thread on running out of memory on Perlmutter, quoted and wrapped",
        "> 0: [2023-10-16 15:16:33,376] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 0.00 | "
        "bwd: 0.00 | bwd_inner: 0.00 | bwd_allreduce: 0.00 | step: 0.00\n> 3:  iteration        1/      10 "
        "| consumed samples:           32 | consumed tokens:        65536 | elapsed time per iteration "
        "(ms): 31591.7 | learning rate: 5.062E-04 | global batch size:    32 | lm loss: 1.5752\n> 55E+01 | "
        f"loss scale: 4096.0 | actual seqlen:  2048 | {_END} samples per second: 1.013 | TFLOPs: 37.10 |\n"
        "> 2: [Rank 2] (after 1 iterations) memory (MB) | allocated: 7063.22802734375 | max allocated: "
        "23105.095703125 | reserved: 35048.0 | max reserved: 35048.0\n",
        {"global_batch": 32, "iterations": 1, "median_step_s": 31.5917, "world_size": None},
    ),
    Sample(
        "nemo-workshop",
        "a workshop on NeMo, steps that begin slowly",
        "".join(
            f"Training epoch 0, iteration {at}/249 | lr: 1.961e-06 | global_batch_size: 8 | global_step: "
            f"{at} | reduced_train_loss: 1.315 | train_step_timing in s: {seconds}"
            + (f" | consumed_samples: {8 * at + 8}" if at else "")
            + "\n"
            for at, seconds in enumerate((7.126, 2.505, 1.505))
        ),
        {"iterations": 3, "global_batch": 8, "world_size": None, "median_step_s": None},
    ),
    Sample(
        "nemo-15b-256",
        "NVIDIA dgxc-benchmarking README, Nemotron 15B at the last of 100 steps",
        "grep train_step_timing results/*.out\nEpoch 0: : 100%|██████████| 100/100 [10:48<00:00, "
        "reduced_train_loss=0.0172, global_step=99.00, consumed_samples=25600.0, train_step_timing in "
        "s=3.130]\n",
        {"iterations": 100, "global_batch": 256, "median_step_s": 3.13, "world_size": None},
    ),
    Sample(
        "deepspeed-gpt-neox-comms",
        "EleutherAI/gpt-neox notes of February 2023, 30 steps",
        "[2023-02-27 23:34:56,819] [INFO] [logging.py:60:log_dist] [Rank 0] rank=0 time (ms) | train_batch: "
        "0.00 | batch_input: 6.49 | forward: 512.12 | backward_microstep: 1835.15 | backward: 1834.99 | "
        "backward_inner: 1813.91 | backward_allreduce: 0.12 | reduce_tied_grads: 0.33 | comms: 126.14 | "
        "reduce_grads: 125.80 | step: 18.64 | _step_clipping: 0.10\n"
        "[2023-02-27 23:34:56,819] [INFO] [logging.py:60:log_dist] [Rank 0] step=30, skipped=20, "
        "lr=[1.87e-06, 1.87e-06], mom=[[0.9, 0.95], [0.9, 0.95]]\n"
        "steps: 30 loss: 10.7133 iter time (s): 0.283 samples/sec: 226.457\n",
        {
            "iterations": 30,
            "global_batch": 64,
            "median_step_s": 0.283,
            "skipped": 20,
            "world_size": None,
        },
    ),
    Sample(
        "deepspeed-two-losses",
        "Habana's mixture of experts in DeepSpeed, lines of its test scripts",
        "steps: 130 loss: 5.6950 lm loss: 5.6543 moe loss: 0.0407 iter time (s): 0.239 samples/sec: 535.571\n",
        {"iterations": 130, "global_batch": 128, "median_step_s": 0.239, "world_size": None},
    ),
    Sample(
        "deepspeed-bar-between",
        "a log of pre-training on four V100 with DeepSpeed's breakdown",
        "0       100%   12.8G/ 15.0G\n1       100%   12.5G/ 15.0G\nEpoch 0:   1%|          | 7/743 "
        "[00:18<31:07,  2.54s/it, loss=12.0042, global_step=7, toks/s=4013.1, gpu_util=100%, gpu_mem=12.8G]"
        "[Rank 0] time (ms) | optimizer_allgather: 170.78 | optimizer_gradients: 48.65 | optimizer_step: "
        "361.10\n[Rank 0] time (ms) | fwd_microstep: 654.38 | bwd_microstep: 2688.62 | bwd_inner_microstep: "
        "2544.27 | bwd_allreduce_microstep: 144.26 | step_microstep: 581.75\n[Rank 0] time (ms) | fwd: "
        "5722.49 | bwd: 16107.19 | bwd_inner: 15029.70 | bwd_allreduce: 1077.03 | step: 582.04\nEpoch 0:   "
        "1%|          | 7/743 [00:22<31:07,  2.54s/it, loss=11.9652, global_step=8, toks/s=2651.6]Epoch 0, "
        "Step 7, Global Step 8, Loss: 11.9652, Tokens/s: 2651.6, Tokens: 10412\n",
        {"median_step_s": 22.41172, "global_batch": None, "world_size": None, "iterations": None},
    ),
    Sample(
        "torchtitan-xpu-without-mesh",
        "notes on torchtitan on Intel GPUs, February 2026",
        "[titan] 2026-02-11 00:53:32,275 - __main__ - INFO - XPU memory usage for model: 0.30GiB(0.48%)\n"
        + "".join(
            f"[titan] 2026-02-11 00:54:17,768 - root - INFO - step:  {at}  loss: 12.85991  grad_norm:  "
            f"2.1345  memory: 19.45GiB(30.39%)  tps: {tps:,}  tflops: 56.37  mfu: 18.91%\n[titan] "
            "2026-02-11 00:54:17,777 - root - WARNING - Dataset c4_test is being re-looped\n"
            for at, tps in ((2, 5941), (3, 5902), (4, 5914))
        ),
        {"iterations": 4, "median_step_s": None, "world_size": None, "tokens_per_s": None},
    ),
    Sample(
        "torchtitan-ezpz-aurora",
        "saforem2/torchtitan with ezpz, two devices of Aurora, stopped at step 190",
        "    mpiexec --envall --np=2 --ppn=2 --no-vni python3 -m torchtitan.experiments.ezpz.train\n"
        "    [num_nodes_from_hostfile=2]vs.[1] (wsa=2 // gpus_per_node=12)\n"
        "    [2026-02-28 14:29:20,885358][I][distributed/parallel_dims:131:build_mesh] Building device mesh with "
        "parallelism: pp=1, dp_replicate=1, dp_shard=2, cp=1, tp=1, ep=1, etp=1\n"
        '    [2026-02-28 14:29:21,687267][I][ft/trainer:116:__init__] Building ezpz.agpt with {\n    "dim": 256,\n'
        '    "rope": {\n        "max_seq_len": 2048,\n'
        "    [2026-02-28 14:29:21,746679][I][ft/trainer:153:__init__] Model ezpz.agpt debugmodel size: 6,163,712 total "
        "parameters\n    [2026-02-28 14:29:22,114507][I][ft/trainer:364:__init__] Trainer is initialized with local "
        "batch size 8, global batch size 16, gradient accumulation steps 1, sequence length 2048, total steps 10000 "
        "(warmup 200)\n"
        + "".join(
            f"    [2026-02-28 14:29:23,662786][I][components/metrics:515:log] step: {at:2}  loss:  8.13834  grad_norm: "
            f" 1.3149  memory:  8.29GiB(12.96%)  tps: {tps:,}  tflops: 0.61  mfu: 0.21%\n"
            for at, tps in (
                (1, 8550),
                (10, 105974),
                (20, 107242),
                (30, 106966),
                (40, 107811),
                (50, 106472),
                (60, 107548),
                (70, 106864),
                (80, 105089),
                (90, 105120),
                (100, 106776),
                (110, 107334),
                (120, 107710),
                (130, 107753),
                (140, 107665),
                (150, 107815),
                (160, 107485),
                (170, 107531),
                (180, 108033),
                (190, 107576),
            )
        )
        + "    ^C\n    Aborted!\n",
        {
            "world_size": 2,
            "dp": 2,
            "tp": 1,
            "pp": 1,
            "global_batch": 16,
            "seq_length": 2048,
            "iterations": 190,
            "warmup": 1,
            "median_step_s": 0.15243,
            "tokens_per_s": 214970,
            "nodes": None,
        },
    ),
    Sample(
        "torchtitan-gb200-graphs",
        "pytorch/torchtitan, experiments with CUDA graphs, four GB200, May 2026",
        "[titan] 2026-05-04 13:58:15,361 - root - INFO - Building device mesh with parallelism: pp=1, dp_replicate=1, "
        "dp_shard=2, cp=1, tp=2, ep=2\n[titan] 2026-05-04 13:58:17,242 - root - INFO - Total parameter count: dense "
        "23,173,376, sparse 9,840,640, active 28,098,816\n[titan] 2026-05-04 13:58:17,242 - root - INFO - Model "
        "graph_trainer/deepseek_v3 debugmodel size: 33,014,016 total parameters\n[titan] 2026-05-04 13:58:21,899 - root "
        "- INFO - Trainer is initialized with local batch size 8, global batch size 16, gradient accumulation steps 1, "
        "sequence length 2048, total steps 10 (warmup 2)\n[titan] 2026-05-04 13:58:26,942 - root - INFO -   Layer 5: 30 "
        "MUST_SAVE, 104 PREFER_RECOMPUTE\n"
        + _titan(
            "[titan] 2026-05-04 13:58:41,402 - root - INFO - ",
            (
                (1, 339),
                (2, 31371),
                (3, 125180),
                (4, 129655),
                (5, 116451),
                (6, 114268),
                (7, 129971),
                (8, 131613),
                (9, 132235),
                (10, 121163),
            ),
        )
        + "[titan] 2026-05-04 13:58:44,191 - root - INFO - Training completed\n",
        {
            "world_size": 4,
            "dp": 2,
            "tp": 2,
            "pp": 1,
            "global_batch": 16,
            "seq_length": 2048,
            "iterations": 10,
            "warmup": 2,
            "median_step_s": 0.0643125,
            "nodes": None,
        },
    ),
    Sample(
        "bridge-step-time-alone",
        "notes on DeepSeek V3 on GB200, lines of Megatron-Bridge found with grep",
        "Step Time : 125.37s GPU utilization: 20.9MODEL_TFLOP/s/GPU    # iter 1, JIT warmup\n"
        + "".join(
            f"Step Time : {s}s GPU utilization: {rate}MODEL_TFLOP/s/GPU\n"
            for s, rate in (
                (6.13, 426.6),
                (4.66, 561.8),
                (10.69, 244.7),
                (2.26, 1156.2),
                (3.54, 738.3),
                (2.24, 1165.6),
                (2.22, 1179.6),
                (2.22, 1177.2),
                (2.22, 1177.3),
            )
        ),
        {"median_step_s": 2.22, "world_size": None, "global_batch": None, "iterations": None},
    ),
    Sample(
        "bridge-cut-label",
        "NVIDIA/cloudai tests, Megatron-Bridge with a label that is cut",
        "ain_fp8_mx/0 Step Time : 9.09s GPU utilization: 663.5MODEL_TFLOP/s/GPU\n\nain_fp8_mx/0  [2025-12-22 15:18:33] "
        "iteration       50/      50 | consumed samples:        25600 | elapsed time per iteration (ms): 9089.0 | learning "
        "rate: 3.000000E-05 | global batch size:   512 | lm loss: 8.114214E+00 | load_balancing_loss: 1.000000E+00 | loss "
        f"scale: 1.0 | grad norm: 0.042 | {_END}\n",
        {"median_step_s": 9.089, "iterations": 50, "global_batch": 512, "entries": 1},
    ),
    Sample(
        "maxtext-gemma-padding",
        "a run of a Gemma on eight devices whose batches hold padding",
        "".join(
            f"I0317 10:00:13.658792 125344476638336 metric_logger.py:181] completed step: {at}, seconds: "
            f"{s}, TFLOP/s/device: {tflops}, Tokens/s/device: {rate}, total_weights: {weights}, loss: 12.9\n"
            for at, s, tflops, rate, weights in (
                (1, 0.277, 370.707, 14774.896, 31850),
                (2, 0.215, 477.762, 19041.686, 27633),
                (3, 0.434, 237.056, 9448.085, 29413),
            )
        ),
        {"iterations": 4, "world_size": None, "tokens_per_s": None},
    ),
    Sample(
        "maxtext-tpu-llama2",
        "AI-Hypercomputer/tpu-recipes, Llama 2 70B on v6e-256, one step",
        "completed step: 17, seconds: 17.373, TFLOP/s/device: 419.193, Tokens/s/device: 943.086, "
        "total_weights: 4194304, loss: -0.004\n",
        {"iterations": 18, "world_size": 256, "median_step_s": 17.373, "tokens_per_s": 241426.6},
    ),
    Sample(
        "maxtext-70b-64",
        "NVIDIA dgxc-benchmarking, Llama 3 70B on 64 GPUs, the last step",
        "completed step: 49, seconds: 7.908, TFLOP/s/device: 460.480, Tokens/s/device: 1035.970, "
        "total_weights: 524288, loss: 0.000\n",
        {"iterations": 50, "world_size": 64, "median_step_s": 7.908, "tokens_per_s": 66298.4},
    ),
    Sample(
        "hf-bigscience-n16-four-steps",
        "bigscience-workshop/bigscience, hf_ds_gpt2_n16_bs4.out, shortened",
        "".join(
            f"[2021-05-25 05:22:16,475] [INFO] [config.py:752:print]   {row}\n"
            for row in (
                "gradient_accumulation_steps .. 1",
                "train_batch_size ............. 256",
                "train_micro_batch_size_per_gpu  4",
                "world_size ................... 64",
            )
        )
        + "[2021-05-25 05:29:14,954] [INFO] [stage3.py:2708:_overflow_clean_up] [deepscale] OVERFLOW! Rank 0 "
        "Skipping step. Attempted loss scale: 256, reducing to 256\n"
        "{'train_runtime': 836.394, 'train_samples_per_second': 1.196, 'train_steps_per_second': 0.005, 'epoch': 1.0}\n"
        "{'train_runtime': 836.4123, 'train_samples_per_second': 1.196, 'train_steps_per_second': 0.005, 'epoch': 1.0}\n"
        "{'train_runtime': 836.4003, 'train_samples_per_second': 1.196, 'train_steps_per_second': 0.005, 'epoch': 1.0}\n",
        {"world_size": 64, "global_batch": 256, "iterations": 4, "mean_step_s": 209.1},
    ),
    Sample(
        "hf-metrics-genomes",
        "a log of ViBE, DNA of viruses, run_glue's metrics with tabs before them",
        "\t\t\t[INFO|tokenization_utils_base.py:2033] 2025-01-15 23:29:48,626 >> tokenizer config file saved\n"
        "\t\t\t***** train metrics *****\n\t\t\tepoch                    =        4.0\n\t\t\ttrain_loss               "
        "=     0.4068\n\t\t\ttrain_runtime            = 2:17:50.58\n\t\t\ttrain_samples            =      36696\n"
        "\t\t\ttrain_samples_per_second =     17.748\n\t\t\ttrain_steps_per_second   =      1.109\n",
        {"global_batch": 16, "iterations": 9176, "mean_step_s": 0.90133, "world_size": None},
    ),
    Sample(
        "hf-metrics-llama-factory",
        "a vendor's playbook for LLaMA-Factory, checkpoint-411 is the last one",
        "***** train metrics *****\n  epoch                    =        3.0\n  total_flos               = "
        "11076559GF\n  train_loss               =     0.9993\n  train_runtime            = 0:14:32.12\n"
        "  train_samples_per_second =      3.749\n  train_steps_per_second   =      0.471\nFigure saved at: "
        "saves/qwen3-4b/lora/sft/training_loss.png\n",
        {"global_batch": 8, "iterations": 411, "mean_step_s": 2.122, "world_size": None},
    ),
    Sample(
        "hf-metrics-factory-h100",
        "a course on LLaMA-Factory on one H100, three epochs of 74 steps",
        "[INFO|tokenization_utils_base.py:2519] 2025-05-15 07:30:26,121 >> Special tokens file saved\n"
        "***** train metrics *****\n  epoch                    =        3.0\n  total_flos               = "
        "16222836GF\n  train_loss               =     0.7428\n  train_runtime            = 0:04:06.24\n"
        "  train_samples_per_second =        7.2\n  train_steps_per_second   =      0.902\n"
        "[INFO|modelcard.py:450] 2025-05-15 07:30:26,218 >> Dropping the following result\n",
        {"global_batch": 8, "iterations": 222, "mean_step_s": 1.1092, "world_size": None},
    ),
    Sample(
        "hf-metrics-and-dict",
        "a token classifier, the dictionary and the same figures as metrics",
        "{'train_runtime': 158.4339, 'train_samples_per_second': 108.184, 'train_steps_per_second': 3.383, "
        "'train_loss': 0.05750848997884722, 'epoch': 2.0}          \n"
        "100%|██████████████████████████████████| 536/536 [02:38<00:00,  3.38it/s]\n"
        "***** train metrics *****\n  epoch                    =        2.0\n  train_loss               =     "
        "0.0575\n  train_runtime            = 0:02:38.43\n  train_samples            =       8570\n"
        "  train_samples_per_second =    108.184\n  train_steps_per_second   =      3.383\n",
        {"global_batch": 32, "iterations": 536, "mean_step_s": 0.29559, "world_size": None},
    ),
    Sample(
        "hf-metrics-sky",
        "SkyPilot's example of Llama 3 8B on eight TPU v6e, 20 steps",
        "".join(
            f"(task, pid=17499) {row}\n"
            for row in (
                "***** train metrics *****",
                "  epoch                    =      1.1765",
                "  total_flos               = 109935420GF",
                "  train_loss               =     10.6011",
                "  train_runtime            =  0:11:12.77",
                "  train_samples            =         282",
                "  train_samples_per_second =       0.476",
                "  train_steps_per_second   =        0.03",
            )
        ),
        {"iterations": 20, "world_size": None, "mean_step_s": 33.64},
    ),
    Sample(
        "hf-metrics-neuron",
        "README of a BERT classifier on two Neuron cores, 3000 steps",
        "***** train metrics *****\n  epoch                    =        3.0\n  eval_loss                =     "
        "0.1761\n  eval_runtime             = 0:00:03.73\n  eval_samples_per_second  =    267.956\n  "
        "eval_steps_per_second    =     16.881\n  total_flos               =  1470300GF\n  train_loss           "
        "    =     0.2024\n  train_runtime            = 0:07:27.14\n  train_samples_per_second =     53.674\n"
        "  train_steps_per_second   =      6.709\n",
        {"global_batch": 8, "iterations": 3000, "mean_step_s": 0.14905, "world_size": None},
    ),
    Sample(
        "hf-metrics-after-header",
        "notes on fine-tuning Qwen3-8B, 6351 steps",
        "***** Running training *****\n  Num examples = 16,936\n  Num Epochs = 3\n  Instantaneous batch size per "
        "device = 4\n  Total train batch size (w. parallel, distributed & accumulation) = 8\n  Gradient "
        "Accumulation steps = 2\n  Total optimization steps = 6,351\n  Number of trainable parameters = "
        "7,667,712\n  1%|█  | 59/6351 [02:30<4:06:05,  2.35s/it\n...\n***** train metrics *****\n"
        "  epoch                    =          3.0\n  total_flos               = 1597309824GF\n  train_loss       "
        "        =       0.2691\n  train_runtime            =   4:32:57.41\n  train_samples_per_second =        "
        "3.102\n  train_steps_per_second   =        0.388\n",
        {"global_batch": 8, "iterations": 6351, "mean_step_s": 2.5787, "world_size": 1},
    ),
    Sample(
        "hf-metrics-ipu",
        "a model card of a BERT fine-tuned on IPUs, two epochs of 345 steps",
        "***** train metrics *****\n  epoch                    =        2.0\n  train_loss               =     "
        "1.2528\n  train_runtime            = 0:02:14.50\n  train_samples            =      88568\n"
        "  train_samples_per_second =   1316.952\n  train_steps_per_second   =       5.13\n\n"
        "***** eval metrics *****\n  epoch            =     2.0\n  eval_exact_match = 85.2696\n",
        {"global_batch": 256, "iterations": 690, "mean_step_s": 0.19493, "world_size": None},
    ),
    Sample(
        "hf-output-pretty",
        "a course on fine-tuning, TrainOutput over several lines",
        "TrainOutput(\n    global_step=200,\n    training_loss=1.6350819182395935,\n    metrics={\n"
        "        'train_runtime': 74.531,\n        'train_samples_per_second': 21.468,\n        "
        "'train_steps_per_second': 2.683,\n        'train_loss': 1.6350819182395935,\n        'epoch': 1.6\n"
        "    }\n)\n",
        {"global_batch": 8, "iterations": 200, "mean_step_s": 0.372655, "world_size": None},
    ),
    Sample(
        "hf-train-results",
        "notes on ChatGLM, train_results.json: its rates have two digits",
        '{\n    "epoch": 9.92,\n    "train_loss": 2.5992207204141926,\n    "train_runtime": 6723.0793,\n    '
        '"train_samples_per_second": 1.487,\n    "train_steps_per_second": 0.046\n}\n',
        {"run_s": 6723.0793, "iterations": None, "global_batch": None, "world_size": None},
        "train_results.json",
    ),
    Sample(
        "hf-whisper-58-epochs",
        "a course in French on fine-tuning Whisper, 700 steps",
        "    {'train_runtime': 20297.6998, 'train_samples_per_second': 0.552, 'train_steps_per_second': 0.034, "
        "'train_loss': 0.181169177887163, 'epoch': 58.33}\n    TrainOutput(global_step=700, training_loss="
        "0.181169177887163, metrics={'train_runtime': 20297.6998, 'train_samples_per_second': 0.552, "
        "'train_steps_per_second': 0.034, 'total_flos': 6.8128939966464e+17, 'train_loss': "
        "0.181169177887163, 'epoch': 58.333333333333336})\n",
        {"global_batch": 16, "iterations": 700, "mean_step_s": 28.99671, "world_size": None},
    ),
)

HPC = (
    Sample(
        "lammps-128-ranks-tau",
        "ARCHER2 course on LAMMPS, 1000 atoms on 128 ranks",
        "    2000   0.93942595   -2.5817381   -3.9894679    1.4077298  -0.31689463    1666.6667          0.6\n"
        "Loop time of 4.2033 on 128 procs for 50000 steps with 1000 atoms\n\nPerformance: 5138815.615 tau/day, "
        "11895.407 timesteps/s\n99.3% CPU use with 128 MPI tasks x 1 OpenMP threads\n\nMPI task timing "
        "breakdown:\nSection |  min time  |  avg time  |  max time  |%varavg| %total\n"
        "---------------------------------------------------------------\n"
        "Pair    | 0.25206    | 0.29755    | 0.34713    |   4.5 |  7.08\n"
        "Neigh   | 0.21409    | 0.22675    | 0.23875    |   1.2 |  5.39\n"
        "Comm    | 2.9381     | 3.097      | 3.2622     |   4.6 | 73.68\n"
        "Output  | 0.0041445  | 0.0049069  | 0.0052867  |   0.4 |  0.12\n"
        "Modify  | 0.40665    | 0.53474    | 0.67692    |  10.0 | 12.72\n"
        "Other   |            | 0.04237    |            |       |  1.01\n\n"
        "Nlocal:         7.8125 ave          12 max           5 min\n",
        {"world_size": 128, "iterations": 50000, "run_s": 4.2033, "nodes": None},
    ),
    Sample(
        "lammps-one-step",
        "a log of an EAM potential, a run of one step",
        "Per MPI rank memory allocation (min/avg/max) = 4.674 | 4.674 | 4.674 Mbytes\nStep Temp E_pair E_mol "
        "TotEng Press \n       0            0   -1705.0332            0   -1705.0332     3307.906 \n"
        "Loop time of 0.00203649 on 1 procs for 1 steps with 500 atoms\n\nPerformance: 42.426 ns/day, 0.566 "
        "hours/ns, 491.042 timesteps/s\n98.6% CPU use with 1 MPI tasks x no OpenMP threads\n\nMPI task timing "
        "breakdown:\nSection |  min time  |  avg time  |  max time  |%varavg| %total\n"
        "Pair    | 0.0010929  | 0.0010929  | 0.0010929  |   0.0 | 53.66\n"
        "Comm    | 1.138e-05  | 1.138e-05  | 1.138e-05  |   0.0 |  0.56\n"
        "Output  | 0.00092723 | 0.00092723 | 0.00092723 |   0.0 | 45.53\n"
        "Other   |            | 4.588e-06  |            |       |  0.23\nTotal wall time: 0:00:00\n",
        {"world_size": 1, "iterations": 1, "run_s": 0.00203649},
    ),
    Sample(
        "lammps-flux-without-loop-time",
        "Flux operator's README, the end of a log on eight ranks",
        "...\nPerformance: 0.036 ns/day, 663.320 hours/ns, 4.188 timesteps/s\n93.0% CPU use with 8 MPI tasks x "
        "1 OpenMP threads\n\nMPI task timing breakdown:\nSection |  min time  |  avg time  |  max time  "
        "|%varavg| %total\n---------------------------------------------------------------\n"
        "Pair    | 11.542     | 13.167     | 14.846     |  27.5 | 55.14\n"
        "Comm    | 0.12108    | 1.8002     | 3.4243     |  74.5 |  7.54\n"
        "Other   |            | 0.002142   |            |       |  0.01\nTotal wall time: 0:00:24\n",
        {"run_s": None, "iterations": None, "compute": None},
    ),
    Sample(
        "sparta-particles",
        "sparta/sparta, a log of 4 ranks with particles instead of atoms",
        "    1000   0.40211044     6645        0        0        0     2040 \nLoop time of 0.402219 on 4 procs for "
        "1000 steps with 6645 particles\n\nMPI task timing breakdown:\nSection |  min time  |  avg time  |  max "
        "time  |%varavg| %total\n---------------------------------------------------------------\n"
        "Move    | 0.0054091  | 0.16748    | 0.32967    |  39.6 | 41.64\n"
        "Comm    | 0.018017   | 0.019276   | 0.020765   |   0.8 |  4.79\n"
        "Other   |            | 0.2005     |            |       | 49.84\n",
        {"world_size": None, "run_s": None},  # another program
    ),
    Sample(
        "gromacs-macbook-end",
        "a course in Indonesian on simulating water, a MacBook Air",
        "starting mdrun 'water TIP4P/Ice'\n50000 steps,    100.0 ps.\n\nWriting final coordinates.\n\n"
        "               Core t (s)   Wall t (s)        (%)\n       Time:      792.815       99.102      800.0\n"
        "                 (ns/day)    (hour/ns)\nPerformance:       87.185        0.275\n",
        {"iterations": 50000, "run_s": 99.102, "mean_step_s": 0.00198204, "world_size": None},
    ),
    Sample(
        "gromacs-resethway-screen",
        "a guide to Wi4MPI: the timers are reset half way",
        "10000 steps,     20.0 ps.\nstep 0\nstep 100, remaining wall clock time:    25 s          \nvol 0.70  "
        "imb F  1% pme/F 0.70 \nstep 10000, remaining wall clock time:     0 s          \n\n"
        "               Core t (s)   Wall t (s)        (%)\n       Time:      721.804       11.279     6399.6\n"
        "                 (ns/day)    (hour/ns)\nPerformance:       76.618        0.313\n",
        {"iterations": 5000, "run_s": 11.279, "mean_step_s": 0.0022558, "world_size": None},
    ),
    Sample(
        "gromacs-tail-only",
        "a workshop on GROMACS, the last lines of md.log",
        "               Core t (s)   Wall t (s)        (%)\n       Time:     1432.575        5.598    25589.8\n"
        "                 (ns/day)    (hour/ns)\nPerformance:      154.366        0.155\n"
        "Finished mdrun on rank 0 Tue Nov 10 05:48:42 2020\n",
        {"run_s": 5.598, "world_size": None, "iterations": None},
    ),
    Sample(
        "seff-cores-alone",
        "a course of Calcul Québec, seff of a serial job",
        "Job ID: 1806355\nCluster: mp2\nUser/Group: moroub/moroub\nState: COMPLETED (exit code 0)\nCores: 1\n"
        "CPU Utilized: 00:00:02\nCPU Efficiency: 25.00% of 00:00:08 core-walltime\nJob Wall-clock time: "
        "00:00:08\nMemory Utilized: 1012.00 EB\nMemory Efficiency: 0.39% of 256.00 MB\n",
        {"run_s": 8, "nodes": 1},
    ),
    Sample(
        "seff-raw-data",
        "ARCC wiki, seff -d with the raw data above",
        "[]$ seff -d 12347496\nSlurm data: JobID ArrayJobID User Group State Clustername Ncpus Nnodes Ntasks "
        "Reqmem PerNode Cput Walltime Mem ExitStatus\nSlurm data: 12347496  salexan5 salexan5 COMPLETED teton 40 "
        "1 1 83886080 1 343054 8641 105460 0\n\nJob ID: 12347496\nCluster: teton\nUser/Group: "
        "salexan5/salexan5\nState: COMPLETED (exit code 0)\nNodes: 1\nCores per node: 40\nCPU Utilized: "
        "3-23:17:34\nCPU Efficiency: 99.25% of 4-00:00:40 core-walltime\nJob Wall-clock time: 02:24:01\nMemory "
        "Utilized: 102.99 MB\nMemory Efficiency: 0.13% of 80.00 GB\n",
        {"nodes": 1, "run_s": 8641},
    ),
    Sample(
        "seff-gb-per-core",
        "a course at Harvard, the memory is asked for by core",
        "seff 7084142\nJob ID: 7084142\nCluster: odyssey\nUser/Group: pkrastev/rc_admin\nState: COMPLETED (exit "
        "code 0)\nNodes: 1\nCores per node: 2\nCPU Utilized: 00:03:21\nCPU Efficiency: 64.01% of 00:05:14 "
        "core-walltime\nJob Wall-clock time: 00:02:37\nMemory Utilized: 12.00 GB\nMemory Efficiency: 60.01% of "
        "20.00 GB (10.00 GB/core)\n",
        {"nodes": 1, "run_s": 157},
    ),
    Sample(
        "sacct-energy-in-tres",
        "a log of a training on Frontier: 32 nodes, and the energy in AllocTRES",
        "JobID|JobName|State|ExitCode|Elapsed|NNodes|AllocTRES|Submit|Start|End\n"
        "4904355|e97-1p3b-k160-32n-r3|COMPLETED|0:0|00:16:03|32|billing=3584,cpu=3584,energy=25416768,mem=16000G,"
        "node=32|2026-06-26T06:46:24|2026-06-26T06:59:05|2026-06-26T07:15:08\n"
        "4904355.batch|batch|COMPLETED|0:0|00:16:03|1|cpu=56,mem=500G,node=1|2026-06-26T06:59:05|"
        "2026-06-26T06:59:05|2026-06-26T07:15:08\n"
        "4904355.extern|extern|COMPLETED|0:0|00:16:03|32|billing=3584,cpu=3584,mem=16000G,node=32|"
        "2026-06-26T06:59:05|2026-06-26T06:59:05|2026-06-26T07:15:08\n",
        {"nodes": 32, "run_s": 963, "energy": 25416768},
    ),
    Sample(
        "sacct-running",
        "notes on a cluster, a job that runs",
        "User|JobID|JobName|Partition|State|Timelimit|Start|End|Elapsed|MaxRSS|MaxVMSize|NNodes|NCPUS|NodeList\n"
        "ncovercash|2931152|ncovercash_test|main|RUNNING|00:15:00|2022-09-15T19:24:06|Unknown|00:02:42|||2|2|"
        "compute-5-15,compute-20-0\n"
        "|2931152.batch|batch||RUNNING||2022-09-15T19:24:06|Unknown|00:02:42|||1|1|compute-5-15\n",
        {"run_s": None},
    ),
    Sample(
        "sacct-array-tasks",
        "a test of a workflow manager: tasks of arrays, sacct -p with many empty cells",
        "JobID|JobIDRaw|JobName|Partition|MaxRSS|NTasks|AllocCPUS|Elapsed|State|ExitCode|ReqMem|ConsumedEnergy|"
        "MaxDiskRead|AllocGRES|ReqGRES|ReqTRES|AllocTRES|\n"
        "1671915_1|1671915|MV_mock-A36971|short|||1|00:00:20|CANCELLED by 1365|0:0|16000Mn|||||cpu=1,mem=16000M,"
        "node=1|cpu=1,mem=16000M,node=1|\n"
        "1671915_1.batch|1671915.batch|batch||900K|1|1|00:00:20|CANCELLED|0:15|16000Mn|0|0|||||cpu=1,mem=16000M,"
        "node=1|\n"
        "1672169_10|1672169|subtest.sh|all|||1|00:01:02|COMPLETED|0:0|7000Mc|||||cpu=1,mem=7000M,node=1|cpu=1,"
        "mem=7000M,node=1|\n"
        "1672169_10.batch|1672169.batch|batch||1764K|1|1|00:01:02|COMPLETED|0:0|7000Mc|0|0.06M||||cpu=1,mem=7000M,"
        "node=1|\n",
        {"nodes": 1, "run_s": 62, "energy": None},
    ),
    Sample(
        "sacct-every-column",
        "a test of a scheduler library: all columns of sacct, a job that waits",
        "Account|AdminComment|AllocCPUS|AllocNodes|AllocTRES|ConsumedEnergy|ConsumedEnergyRaw|CPUTime|Elapsed|"
        "ElapsedRaw|JobID|JobIDRaw|JobName|NCPUS|NNodes|NodeList|NTasks|Partition|ReqTRES|Start|State|Timelimit\n"
        "||1|0||0|0|00:00:00|00:00:00|0|4|4|jobscript.sh|1|1|None assigned||debug|billing=1,cpu=1,node=1|Unknown|"
        "PENDING|Partition_Limit\n",
        {"run_s": None, "energy": None},
    ),
    Sample(
        "sacct-out-of-memory",
        "a test of a pipeline: no header, so no column is known",
        "4711|OUT_OF_MEMORY|0:125|01:02:03||120000M\n4711.batch|OUT_OF_MEMORY|0:125|01:02:03|122879000K|120000M\n",
        {"run_s": None, "nodes": None},
    ),
    Sample(
        "espresso-gpu-excerpt",
        "a guide to pw.x on a GPU: three lines of its output",
        "Parallel version (MPI & OpenMP), running on       8 processor cores\nNumber of MPI processes:            "
        "     1\nThreads/MPI process:                     8\n...\nGPU acceleration is ACTIVE.  1 visible GPUs per "
        "MPI rank\n...\nParallel routines\n\nPWSCF        :     37.94s CPU     50.77s WALL\n",
        {"iterations": None},
    ),
)


def _state(
    steps: int, planned: int, epochs: float, history: list[dict[str, object]], **more: object
) -> str:
    """A trainer_state.json."""
    return json.dumps({
        "best_metric": None, "best_model_checkpoint": None, "epoch": epochs, "global_step": steps,
        "is_hyper_param_search": False, "is_local_process_zero": True,
        "is_world_process_zero": True, "log_history": history, "max_steps": planned,
        "num_train_epochs": 3, "total_flos": 1145333644001280.0, "trial_name": None,
        "trial_params": None, **more,
    }, indent=2)  # fmt: skip


_STATE_FILE = "trainer_state.json"
STATES = (
    Sample(
        "hf-state-images",
        "an image classifier, without train_batch_size, 630 steps",
        _state(
            630,
            630,
            3.0,
            [
                {"epoch": 3.0, "learning_rate": 6.3e-07, "loss": 0.0033, "step": 630},
                {
                    "epoch": 3.0,
                    "step": 630,
                    "total_flos": 7.811192553150874e17,
                    "train_loss": 0.0414532983113849,
                    "train_runtime": 358.5996,
                    "train_samples_per_second": 28.109,
                    "train_steps_per_second": 1.757,
                },
            ],
        ),
        {"iterations": 630, "global_batch": 16, "mean_step_s": 0.569206, "world_size": None},
        _STATE_FILE,
    ),
    Sample(
        "hf-state-whisper",
        "a Whisper of 5000 steps in 38.17 epochs",
        _state(
            5000,
            5000,
            38.17,
            [
                {"epoch": 38.17, "learning_rate": 8.9e-09, "loss": 0.0002, "step": 5000},
                {"epoch": 38.17, "eval_loss": 0.42, "eval_runtime": 1710.8673, "step": 5000},
                {
                    "epoch": 38.17,
                    "step": 5000,
                    "train_loss": 0.0189,
                    "train_runtime": 77350.9963,
                    "train_samples_per_second": 3.232,
                    "train_steps_per_second": 0.065,
                },
            ],
        ),
        {"iterations": 5000, "global_batch": 50, "mean_step_s": 15.4702, "world_size": None},
        _STATE_FILE,
    ),
    Sample(
        "hf-state-45-steps",
        "a small adapter, two samples a device and four devices or steps",
        _state(
            45,
            45,
            3.0,
            [
                {"epoch": 2.6666666666666665, "grad_norm": 0.48, "loss": 0.427, "step": 40},
                {
                    "epoch": 3.0,
                    "step": 45,
                    "train_loss": 2.382,
                    "train_runtime": 472.0904,
                    "train_samples_per_second": 0.763,
                    "train_steps_per_second": 0.095,
                },
            ],
            train_batch_size=2,
            logging_steps=10,
            num_input_tokens_seen=0,
        ),
        {"iterations": 45, "global_batch": 8, "mean_step_s": 10.4909, "world_size": None},
        _STATE_FILE,
    ),
    Sample(
        "hf-state-without-run-time",
        "a reinforcement learning of 12 steps, saved before its last line",
        _state(
            12,
            12,
            3.0,
            [{"epoch": 2.5, "loss": 0.0, "reward": 0.365625, "step": 10}],
            train_batch_size=2,
            num_input_tokens_seen=117284,
        ),
        {"iterations": 12, "mean_step_s": None, "global_batch": None, "world_size": None},
        _STATE_FILE,
    ),
    Sample(
        "hf-state-checkpoint",
        "DNABERT-2, the checkpoint of step 2200 of 2315",
        _state(
            2200,
            2315,
            4.75,
            [
                {"epoch": 4.75, "learning_rate": 1.56e-06, "loss": 0.0276, "step": 2200},
                {"epoch": 4.75, "eval_loss": 0.28, "eval_runtime": 13.8654, "step": 2200},
            ],
        ),
        {"iterations": 2200, "mean_step_s": None, "run_s": None},
        _STATE_FILE,
    ),
)

_ACCOUNT = "     R E A L   C Y C L E   A N D   T I M E   A C C O U N T I N G\n\n"
_RULE = "-" * 77 + "\n"
_TAILS = (
    Sample(
        "gromacs-5-group-cutoff",
        "MdWR/IBM3201, the end of md.log of 2023: 5,000,000 steps on one rank",
        "\tStatistics over 5000001 steps using 50001 frames\n\n"
        + _ACCOUNT
        + "On 1 MPI rank\n\n Computing:          Num   Num      Call    Wall time         Giga-Cycles\n"
        "                     Ranks Threads  Count      (s)         total sum    %\n"
        + _RULE
        + " Neighbor search        1    1     250001      14.130         31.084   7.7\n"
        " Force                  1    1    5000001     133.428        293.515  73.0\n"
        " Write traj.            1    1       1001       0.082          0.181   0.0\n"
        " Update                 1    1    5000001      21.770         47.889  11.9\n"
        " Rest                                          13.313         29.285   7.3\n"
        + _RULE
        + " Total                                        182.723        401.954 100.0\n"
        + _RULE
        + "\n               Core t (s)   Wall t (s)        (%)\n"
        "       Time:      179.377      182.723       98.2\n"
        "                 (ns/day)    (hour/ns)\nPerformance:     1182.118        0.020\n"
        "Finished mdrun on rank 0 Fri Nov 24 13:17:15 2023\n",
        {"world_size": 1, "iterations": 5000000, "run_s": 182.723, "mean_step_s": 3.65446e-5},
    ),
    Sample(
        "gromacs-2021-gpu-16-threads",
        "roshan2004/GO_atomistic, the end of md.log: ten million steps",
        "\tStatistics over 10000001 steps using 100001 frames\n\n"
        + _ACCOUNT
        + "On 1 MPI rank, each using 16 OpenMP threads\n\n Computing:          Num   Num      Call    Wall "
        "time         Giga-Cycles\n                     Ranks Threads  Count      (s)         total sum    %\n"
        + _RULE
        + " Neighbor search        1   16     100001      73.431       2461.478   2.2\n"
        " Launch GPU ops.        1   16   10000001    1780.136      59671.619  52.1\n"
        " Force                  1   16   10000001     310.511      10408.589   9.1\n"
        " Wait PME GPU gather    1   16   10000001      61.669       2067.192   1.8\n"
        " Reduce GPU PME F       1   16   10000001      81.565       2734.111   2.4\n"
        " Wait GPU NB local                             38.327       1284.743   1.1\n"
        " NB X/F buffer ops.     1   16   19900001     292.665       9810.378   8.6\n"
        " Write traj.            1   16       2004       1.143         38.326   0.0\n"
        " Update                 1   16   10000001     201.368       6750.009   5.9\n"
        " Constraints            1   16   10000001     280.390       9398.901   8.2\n"
        " Rest                                         293.005       9821.770   8.6\n"
        + _RULE
        + " Total                                       3414.211     114447.116 100.0\n"
        + _RULE
        + "\n               Core t (s)   Wall t (s)        (%)\n"
        "       Time:    54627.368     3414.211     1600.0\n                         56:54\n"
        "                 (ns/day)    (hour/ns)\nPerformance:      253.060        0.095\n",
        {"world_size": 1, "iterations": 10000000, "run_s": 3414.211, "nodes": None},
    ),
    Sample(
        "gromacs-2025-lysozyme",
        "a tutorial on lysozyme, the end of md.log of October 2025",
        _ACCOUNT
        + "On 1 MPI rank\n\n Activity:              Num   Num      Call    Wall time         "
        "Giga-Cycles\n                        Ranks Threads  Count      (s)         total sum    %\n"
        + _RULE
        + " Domain decomp.            1    1        300       2.571          6.421   0.4\n"
        " Neighbor search           1    1        301      17.382         43.406   2.8\n"
        " Force                     1    1      15001     491.832       1228.155  80.5\n"
        " PME mesh                  1    1      15001      83.997        209.750  13.7\n"
        " NB X/F buffer ops.        1    1      29701       3.794          9.474   0.6\n"
        " Write traj.               1    1         31       0.287          0.717   0.0\n"
        " Update                    1    1      15001       3.567          8.907   0.6\n"
        " Constraints               1    1      15001       6.362         15.886   1.0\n"
        " Rest                                              1.115          2.785   0.2\n"
        + _RULE
        + " Total                                           610.908       1525.500 100.0\n"
        + _RULE
        + " Breakdown of PME mesh activities\n"
        + _RULE
        + " PME spread                1    1      15001      40.990        102.356   6.7\n"
        " PME gather                1    1      15001      23.896         59.671   3.9\n"
        " PME 3D-FFT                1    1      30002      16.887         42.170   2.8\n"
        + _RULE
        + "\n               Core t (s)   Wall t (s)        (%)\n"
        "       Time:      610.908      610.908      100.0\n                 (ns/day)    (hour/ns)\n"
        "Performance:        4.243        5.656\n",
        {"world_size": 1, "iterations": 15000, "run_s": 610.908, "compute": 606.935},
    ),
    Sample(
        "gromacs-stopped-at-once",
        "AtharvaTilewale/GRAVITy_dev, md.log that ends in its first energies",
        "Changing nstlist from 10 to 50, rlist from 1 to 1.105\n\nUsing 1 MPI thread\nUsing 12 OpenMP threads "
        "\n\nThere are: 103516 Atoms\nStarted mdrun on rank 0 Wed Nov 13 23:41:17 2024\n\n           Step      "
        "     Time\n           5000       10.00000\n\n   Energies (kJ/mol)\n           Bond          Angle    "
        "Proper Dih.  Improper Dih.          LJ-",
        {"run_s": None, "iterations": None, "median_step_s": None},
    ),
    Sample(
        "md-log-of-ase",
        "LeoYiLi/Part2project, an md.log of another program, ASE",
        "Time[ps]      Etot[eV]     Epot[eV]     Ekin[eV]    T[K]\n"
        "49.9950       -6042.928    -6046.648        3.719    29.5\n"
        "50.0000       -6042.918    -6046.632        3.714    29.5\n",
        {"run_s": None, "world_size": None, "median_step_s": None, "iterations": None},
    ),
    Sample(
        "openfoam-12-fractions",
        "a case of pimpleFoam with particles, the end of its log",
        "smoothSolver:  Solving for k, Initial residual = 0.0191658, Final residual = 3.9e-06, No Iterations 4\n"
        "ExecutionTime = 2.134 s  ClockTime = 2 s\n\nCourant Number mean: 0.0155386 max: 0.771331\nTime = 1s\n\n"
        "Solving 3-D cloud cloud\nExecutionTime = 2.668 s  ClockTime = 3 s\n\nEnd\n\n",
        {"run_s": 2.668, "world_size": None, "iterations": None},
    ),
    Sample(
        "openfoam-diverged",
        "josephcloherty/floatingBox, interFoam that blew up, cut off",
        "bounding k, min: -9.01645053507e+29 max: 4.36879288591e+28 average: -9.30619391678e+26\n"
        "ExecutionTime = 10.59 s  ClockTime = 10 s\n\nCourant Number mean: 4.97333075685e+19 max: 1.18e+19\n"
        "deltaT = 2.8235485087e-19\nTime = 1.2\n\nPIMPLE: iteration 1\nMULES: Correcting alpha.water\n",
        {"run_s": None, "mean_step_s": None},
    ),
    Sample(
        "espresso-silicon-2026",
        "hexagonal silicon, the end of scf.out of February 2026",
        "     convergence has been achieved in  11 iterations\n\n     init_run     :      0.99s CPU      1.04s WALL "
        "(       1 calls)\n     electrons    :     39.13s CPU     40.80s WALL (       1 calls)\n\n     Called by "
        "init_run:\n     wfcinit:wfcr :      0.92s CPU      0.95s WALL (     250 calls)\n     h_psi        :     "
        "25.33s CPU     25.97s WALL (   11263 calls)\n\n     Parallel routines\n\n     PWSCF        :     41.34s "
        "CPU     45.03s WALL\n\n\n   This run was terminated on:  15: 8:16   6Feb2026            \n\n"
        "=------------------------------------------------------------------------------=\n   JOB DONE.\n",
        {"run_s": 45.03, "iterations": 11, "world_size": None},
    ),
    Sample(
        "espresso-tacc-minutes",
        "CrI3 in scf.out of April 2026, a line of the launcher after the end",
        "     convergence has been achieved in  25 iterations\n\n     electrons    :     97.72s CPU     98.86s WALL "
        "(       1 calls)\n     cdiaghg      :      7.98s CPU      8.04s WALL (    3407 calls)\n \n     Parallel "
        "routines\n \n     PWSCF        :   1m39.48s CPU   1m41.44s WALL\n\n \n   This run was terminated on:  "
        "13:47:36  10Apr2026            \n\n=---------------------------------------------------------------------"
        "---------=\n   JOB DONE.\nTACC:  Shutdown complete. Exiting. \n",
        {"run_s": 101.44, "iterations": 25, "world_size": None},
    ),
    Sample(
        "lammps-zero-steps",
        "Johnsonjz/sog, LAMMPS of July 2025: run 0 computes one energy",
        "LAMMPS (22 Jul 2025 - Update 4)\n  1 by 1 by 1 MPI processor grid\n  192 atoms\nrun             0\n"
        "WARNING: No fixes with time integration, atoms won't move\nLoop time of 3.183e-06 on 1 procs for 0 steps "
        "with 192 atoms\n\n219.9% CPU use with 1 MPI tasks x no OpenMP threads\n\nMPI task timing breakdown:\n"
        "Section |  min time  |  avg time  |  max time  |%varavg| %total\n"
        "Pair    | 0          | 0          | 0          |   0.0 |  0.00\n"
        "Other   |            | 3.183e-06  |            |       |100.00\nTotal wall time: 0:00:00\n",
        {"run_s": None, "mean_step_s": None, "iterations": None},
    ),
    Sample(
        "lammps-lost-atoms",
        "16hchung/rsf_ml_2019, a rerun that loses its atoms",
        "LAMMPS (24 Oct 2018)\nunits metal\n  1 by 1 by 1 MPI processor grid\nrerun dump_250K_1960000.dat dump x y "
        "z box yes add keep\nPer MPI rank memory allocation (min/avg/max) = 175.9 | 175.9 | 175.9 Mbytes\nStep Temp "
        "E_pair E_mol TotEng Press \nERROR: Lost atoms: original 0 current 500000 (../thermo.cpp:441)\nLast command: "
        "rerun dump_250K_1960000.dat dump x y z box yes add keep\n",
        {"run_s": None, "iterations": None},
    ),
    Sample(
        "lammps-slow-scratching",
        "HPQC-LABS/QCBugs, 51,227 atoms on one rank for two hours",
        "Per MPI rank memory allocation (min/avg/max) = 1300 | 1300 | 1300 Mbytes\nStep Press Temp PotEng \n"
        "    1001   -562.19269    8180.9385     -3905428 \nLoop time of 7549.05 on 1 procs for 1000 steps with 51227 "
        "atoms\n\nPerformance: 0.011 ns/day, 2096.958 hours/ns, 0.132 timesteps/s\n63.8% CPU use with 1 MPI tasks x "
        "1 OpenMP threads\n\nMPI task timing breakdown:\nSection |  min time  |  avg time  |  max time  |%varavg| "
        "%total\n---------------------------------------------------------------\n"
        "Pair    | 4092.2     | 4092.2     | 4092.2     |   0.0 | 54.21\n"
        "Neigh   | 10.099     | 10.099     | 10.099     |   0.0 |  0.13\n"
        "Comm    | 0.1589     | 0.1589     | 0.1589     |   0.0 |  0.00\n"
        "Output  | 2721.7     | 2721.7     | 2721.7     |   0.0 | 36.05\n"
        "Modify  | 724.69     | 724.69     | 724.69     |   0.0 |  9.60\n"
        "Other   |            | 0.1211     |            |       |  0.00\n\nTotal wall time: 2:06:06\n",
        {"world_size": 1, "iterations": 1000, "run_s": 7549.05, "compute": 4826.99},
    ),
    Sample(
        "lammps-short-runs",
        "BjarniHaukur/LAMMPS_tests, a run of 20 and one of 10 steps on four ranks",
        "run 20\nPer MPI rank memory allocation (min/avg/max) = 2.600 | 2.600 | 2.600 Mbytes\nLoop time of 0.0022564 "
        "on 4 procs for 20 steps with 256 atoms\n\n95.3% CPU use with 4 MPI tasks x no OpenMP threads\n\nMPI task "
        "timing breakdown:\nSection |  min time  |  avg time  |  max time  |%varavg| %total\n"
        "Pair    | 0.00083804 | 0.0010239  | 0.0011993  |   0.4 | 45.38\n"
        "Comm    | 0.00077402 | 0.00097217 | 0.001197   |   0.0 | 43.09\n\n"
        "delete_atoms group all\nDeleted 256 atoms, new total = 0\nrun 10\nLoop time of 0.00101523 on 4 procs for "
        "10 steps with 256 atoms\n\n100.0% CPU use with 4 MPI tasks x no OpenMP threads\n\nTotal wall time: 0:00:00\n",
        {"world_size": 4, "iterations": 20, "run_s": 0.0022564},
    ),
)

# Excerpts of forms that the samples above lack.
_FORMS = (
    Sample(
        "mpip-short-report",
        "github.com/llnl/mpiP/issues/35, half of the ranks",
        "@ mpiP\n@ Version                  : 3.5.0\n"
        "@ MPIP env var             : -c -d -p -y -k 0\n"
        "---------------------------------------------------------------------------\n"
        "@--- Task Time Statistics (seconds) ---------------------------------------\n"
        "---------------------------------------------------------------------------\n"
        "                     AppTime           MPITime   MPI%   App Task   MPI Task\n"
        "Max               352.552782        154.702501             54570      54590\n"
        "Mean              343.028495        106.324400\n"
        "Min               328.395109         69.468349             19383      35925\n"
        "Stddev              4.150850         11.282483\n"
        "Aggregate    19670625.993357    6097066.388160  31.00\n"
        "---------------------------------------------------------------------------\n"
        "@--- Aggregate Time (top twenty, descending, milliseconds) ----------------\n"
        "---------------------------------------------------------------------------\n"
        "Call                 Site       Time    App%    MPI%      Count\n"
        "Allreduce               4   4.58e+09   23.28   75.09   68870144\n",
        {
            "world_size": 57344,
            "run_s": 352.552782,
            "compute": 236.704095,
            "communication": 69.468349,
            "idle": 36.856051,
            "nodes": None,
        },
    ),
    Sample(
        "megatron-2019-names-without-colons",
        "a log of Megatron-LM of 2019, two GPUs",
        "using world size: 2 and model-parallel size: 2 \n"
        " > number of parameters on model parallel rank 0: 178100224\n"
        "learning rate decaying cosine\n"
        "s iteration      100/     600 | elapsed time per iteration (ms): 810.9 | learning rate "
        "1.444E-04 | lm loss 5.023855E+00 | loss scale 8192.0 |\n"
        "/python3.9/site-packages/torch/cuda/memory.py:416: FutureWarning: torch.cuda.memory_cached"
        " has been renamed to torch.cuda.memory_reserved\n  warnings.warn(\n",
        {
            "world_size": 2,
            "tp": 2,
            "iterations": 100,
            "median_step_s": 0.8109,
            "global_batch": None,
            "seq_length": None,
        },
    ),
    Sample(
        "primus-mamba-environment",
        "AMD Primus, a test of its parser: Megatron-Bridge, Mamba",
        "[Primus:Env] rank=0, world_size=8, local_rank=0, master=localhost:1234\n"
        "  seq_length: 2048\n"
        "ThroughputAverageExtension initialized with seq_len: 2048 world_size: None\n"
        "iteration        1/       3 | elapsed time per iteration (ms): 50652.0 | global batch size:"
        "    32 | lm loss: 1.097315E+01\n"
        "iteration        2/       3 | elapsed time per iteration (ms): 104.6 | global batch size: "
        "   32 | lm loss: 1.097168E+01\n"
        "iteration        3/       3 | elapsed time per iteration (ms): 88.2 | global batch size:   "
        " 32 | lm loss: 7.715407E+00\n",
        {
            "world_size": 8,
            "global_batch": 32,
            "seq_length": 2048,
            "iterations": 3,
            "median_step_s": None,
        },
    ),
    Sample(
        "mindspeed-rank-and-local-rank",
        "a script of MindSpeed-MM that reads its own log",
        "".join(
            f"[Rank 0 | Local Rank 0] 2026-06-01 INFO [train_engine:48] =>  [..] iteration  {at}/  "
            f"100 | consumed samples: {8 * at} | elapsed time per iteration (ms): {ms} | learning "
            "rate: 1e-5 | global batch size: 8 | loss: 1.924620E+00 | grad norm: 134.300 |\n"
            for at, ms in enumerate((7137.9, 3137.9, 3138.9, 3139.9), start=1)
        ),
        {
            "global_batch": 8,
            "iterations": 4,
            "median_step_s": 3.1389,
            "warmup": 1,
            "world_size": None,
        },
    ),
    Sample(
        "hf-three-hosts-in-one-log",
        "a guide to DeepSpeed in CML, three worker nodes",
        "".join(
            f"{host}: {{'train_runtime': {time}, 'train_samples_per_second': {rate}, "
            f"'train_steps_per_second': {steps}, 'train_loss': 0.2324, 'epoch': 3.0}}\n"
            for host, time, rate, steps in (
                ("10.254.21.77", 922.0487, 183.358, 1.913),
                ("10.254.19.151", 922.1271, 183.342, 1.913),
                ("10.254.18.216", 920.7942, 183.608, 1.916),
            )
        ),
        {"iterations": 1764, "global_batch": 96, "run_s": 922.0487, "world_size": None},
    ),
    Sample(
        "hf-metrics-fsdp-hyperpod",
        "aws-samples, FSDP on HyperPod: metrics without a dictionary",
        "***** train metrics *****\n  epoch                    =     0.9997\n"
        "  total_flos               =  1072814GF\n  train_loss               =     2.6578\n"
        "  train_runtime            = 0:08:52.30\n  train_samples            =     100000\n"
        "  train_samples_per_second =    187.862\n  train_steps_per_second   =      2.134\n",
        {"iterations": 1136, "global_batch": 88, "run_s": 532.3, "mean_step_s": 0.46857},
    ),
    Sample(
        "hf-wrapped-texts",
        "a guide to LoRA on a CPU, transformers 5, two lines",
        "100%|███████████████| 50/50 [03:30<00:00, 3.80s/it]\n"
        "{'loss': '2.182', 'grad_norm': '0.8398', 'learning_rate': '0.000004', 'epoch': '8.364'}\n"
        "\n{'train_runtime': '211', 'train_samples_per_second': '0.948',\n "
        "'train_steps_per_second': '0.237', 'train_loss': '2.425',\n 'epoch': '8.364'}\n",
        {"iterations": 50, "run_s": 211.0, "mean_step_s": 4.22},
    ),
    Sample(
        "hf-resumed-at-its-end",
        "README of an adapter: a run that was resumed when it had ended",
        '{\n    "epoch": 1.08,\n    "train_loss": 0.0,\n    "train_runtime": 0.017,\n'
        '    "train_samples": 66611,\n    "train_samples_per_second": 3929048.542,\n'
        '    "train_steps_per_second": 1964553.764\n}\n',
        {"mean_step_s": None, "iterations": None, "world_size": None},
        file="train_results.json",
    ),
    Sample(
        "hf-results-72-steps",
        "notes on supervised fine-tuning; its trainer_state has 72 steps",
        '{\n  "epoch": 1.0,\n  "total_flos": 2.238893403406336e+16,\n'
        '  "train_loss": 0.3728570582332193,\n  "train_runtime": 134.378,\n'
        '  "train_samples_per_second": 16.967,\n  "train_steps_per_second": 0.536\n}\n',
        {"iterations": 72, "global_batch": 32, "run_s": 134.378, "mean_step_s": 1.866361},
        file="train_results.json",
    ),
    Sample(
        "gromacs-2025-two-kinds-of-ranks",
        "md.log of GROMACS 2025: two ranks and two for PME, GPUs",
        "                      :-) GROMACS - gmx mdrun, 2025.2 (-:\n"
        "\n"
        "GROMACS:      gmx mdrun, version 2025.2\n"
        "Running on 1 node with total 20 cores, 20 processing units, 2 compatible GPUs\n"
        "   dt                             = 0.002\n"
        "   nsteps                         = 50000\n"
        "Using 4 MPI threads\n"
        "Using 5 OpenMP threads per tMPI thread\n"
        "\n"
        "Dynamic load balancing report:\n"
        " DLB got disabled because it was unsuitable to use.\n"
        " Average load imbalance: 1.4%.\n"
        " The balanceable part of the MD step is 31%, load imbalance is computed from this.\n"
        " Part of the total run time spent waiting due to load imbalance: 0.4%.\n"
        " Average PME mesh/force load: 4.785\n"
        " Part of the total run time spent waiting due to PP/PME imbalance: 27.3 %\n"
        "\n"
        "      R E A L   C Y C L E   A N D   T I M E   A C C O U N T I N G\n"
        "\n"
        "On 2 MPI ranks doing PP, each using 5 OpenMP threads, and\n"
        "on 2 MPI ranks doing PME, each using 5 OpenMP threads\n"
        "\n"
        " Activity:              Num   Num      Call    Wall time         Giga-Cycles\n"
        "                        Ranks Threads  Count      (s)         total sum    %\n"
        "--------------------------------------------------------------------------------\n"
        " Domain decomp.            2    5        626       4.702        117.214   5.9\n"
        " DD comm. load             2    5          2       0.000          0.001   0.0\n"
        " Send X to PME             2    5      50001       1.177         29.335   1.5\n"
        " Neighbor search           2    5        626       2.383         59.397   3.0\n"
        " Launch PP GPU ops.        2    5     198752       3.386         84.404   4.3\n"
        " Comm. coord.              2    5      49375       3.146         78.432   4.0\n"
        " Force                     2    5      50001      14.290        356.268  18.0\n"
        " Wait + Comm. F            2    5      50001       6.226        155.224   7.8\n"
        " PME GPU mesh *            2    5      50001      20.514        511.429  25.9\n"
        " PME wait for PP *                                19.173        477.988  24.2\n"
        " Wait + Recv. PME F        2    5      50001       1.489         37.117   1.9\n"
        " Wait GPU NB nonloc.       2    5      50001       0.007          0.177   0.0\n"
        " Wait GPU NB local         2    5      50001       0.005          0.125   0.0\n"
        " Wait GPU state copy       2    5     160378       1.145         28.545   1.4\n"
        " NB X/F buffer ops.        2    5       1628       0.031          0.761   0.0\n"
        " Write traj.               2    5          1       0.170          4.242   0.2\n"
        " Constraints               2    5          2       0.007          0.167   0.0\n"
        " GPU constr. setup         2    5        626       0.359          8.948   0.5\n"
        " Kinetic energy            2    5      10001       0.440         10.959   0.6\n"
        " Comm. energies            2    5       5001       0.264          6.576   0.3\n"
        " Rest                                              0.452         11.269   0.6\n"
        "--------------------------------------------------------------------------------\n"
        " Total                                            39.677       1978.320 100.0\n"
        "--------------------------------------------------------------------------------\n"
        "(*) Note that with separate PME ranks, the walltime column actually sums to\n"
        "    twice the total reported, but the cycle count total and % are correct.\n"
        "--------------------------------------------------------------------------------\n"
        " Breakdown of PME mesh activities\n"
        "--------------------------------------------------------------------------------\n"
        " Wait PME GPU gather       2    5      50001       0.012          0.311   0.0\n"
        " Launch PME GPU ops.       2    5     450010       2.727         67.993   3.4\n"
        " Wait PME Recv. PP X       2    5      50001       2.275         56.707   2.9\n"
        "--------------------------------------------------------------------------------\n"
        "\n"
        "               Core t (s)   Wall t (s)        (%)\n"
        "       Time:      793.010       39.677     1998.7\n"
        "                 (ns/day)    (hour/ns)\n"
        "Performance:      217.764        0.110\n"
        "Finished mdrun on rank 0 Sat Nov  8 03:35:58 2025\n",
        {
            "world_size": 4,
            "nodes": 1,
            "iterations": 50000,
            "run_s": 39.677,
            "compute": 19.5905,
            "communication": 5.247792,
            "idle": 10.489708,
        },
        file="md.log",
    ),
    Sample(
        "gromacs-5-waiting-less-than-estimated",
        "md.log of 2017: 192 ranks and 32 for PME",
        "GROMACS:      gmx mdrun, VERSION 5.1.4\n"
        "   dt                             = 0.002\n"
        "   nsteps                         = 10000\n"
        "Using 224 MPI processes\n"
        "Using 1 OpenMP thread per MPI process\n"
        "\n"
        " Average load imbalance: 4.1 %\n"
        " Part of the total run time spent waiting due to load imbalance: 2.3 %\n"
        " Average PME mesh/force load: 1.390\n"
        " Part of the total run time spent waiting due to PP/PME imbalance: 20.9 %\n"
        "\n"
        "     R E A L   C Y C L E   A N D   T I M E   A C C O U N T I N G\n"
        "\n"
        "On 192 MPI ranks doing PP, and\n"
        "on 32 MPI ranks doing PME\n"
        "\n"
        " Computing:          Num   Num      Call    Wall time         Giga-Cycles\n"
        "                     Ranks Threads  Count      (s)         total sum    %\n"
        "-----------------------------------------------------------------------------\n"
        " Domain decomp.       192    1         33      19.430       8932.535   2.5\n"
        " DD comm. load        192    1          3       0.001          0.395   0.0\n"
        " Send X to PME        192    1        801       2.123        975.884   0.3\n"
        " Neighbor search      192    1         33      22.300      10251.900   2.9\n"
        " Comm. coord.         192    1        768       4.254       1955.824   0.6\n"
        " Force                192    1        801     427.603     196582.880  55.8\n"
        " Wait + Comm. F       192    1        801      13.471       6193.257   1.8\n"
        " PME mesh *            32    1        801     455.533      34903.918   9.9\n"
        " PME wait for PP *                            201.196      15416.036   4.4\n"
        " Wait + Recv. PME F   192    1        801      38.196      17559.997   5.0\n"
        " NB X/F buffer ops.   192    1       2337       2.865       1317.085   0.4\n"
        " Write traj.          192    1          2       2.232       1025.998   0.3\n"
        " Update               192    1        801       3.270       1503.168   0.4\n"
        " Constraints          192    1        801      26.456      12162.718   3.5\n"
        " Comm. energies       192    1        161      93.739      43094.891  12.2\n"
        " Rest                                           0.939        431.732   0.1\n"
        "-----------------------------------------------------------------------------\n"
        " Total                                        656.878     352319.642 100.0\n"
        "-----------------------------------------------------------------------------\n"
        "\n"
        "               Core t (s)   Wall t (s)        (%)\n"
        "       Time:   147140.672      656.878    22400.0\n"
        "                 (ns/day)    (hour/ns)\n"
        "Performance:        0.211      113.899\n"
        "Finished mdrun on rank 0 Wed Sep 27 10:34:41 2017\n",
        {
            "world_size": 224,
            "iterations": 800,
            "run_s": 656.878,
            "compute": 478.642,
            "communication": 82.253,
            "idle": 76.590,
        },
        file="md.log",
    ),
    Sample(
        "nemo-bar-torn",
        "aws-samples, NeMo on EKS: a bar with another bar behind it",
        "Epoch 0: :   0%|          | 2000/603000 [1:03:17<317:00:58, v_num=, reduced_train_loss="
        "2.600, global_step=2e+3, consumed_samples=1.28e+6, train_step_timing in s=1.900, val_loss="
        "2.800]dation DataLoader 0: : 51it [00:20,  2.53it/s]\n",
        {"iterations": 2000, "median_step_s": 1.9, "world_size": None, "global_batch": None},
    ),
    Sample(
        "torchtitan-without-batch-mi355",
        "notes on MI355X: a mesh, and no batch",
        "[titan] INFO - Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=2, "
        "cp=1, tp=1, ep=1\n"
        "[titan] INFO - step:  1  loss:  7.58945  grad_norm:  9.3716  memory:  0.39GiB(0.13%)  tps: "
        "68      tflops: 0.02  mfu: 0.00%\n"
        "[titan] INFO - step:  8  loss:  6.48329  grad_norm:  3.6826  memory:  0.47GiB(0.16%)  tps: "
        "24,468  tflops: 7.16  mfu: 0.29%\n",
        {"world_size": 2, "dp": 2, "iterations": 8, "median_step_s": None, "tokens_per_s": None},
    ),
)

SAMPLES = (*TRAINING, *HPC, *STATES, *_TAILS, *_FORMS)
