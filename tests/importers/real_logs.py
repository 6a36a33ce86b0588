# ruff: noqa: E501 (lines as they were printed)
"""Lines that programs of other people printed, with what a reader may say of them.

Each sample is a short excerpt of figures from a public page (`source`); paths, dates and fields
that no reader uses are shortened. `truth` was written down by eye, before any reader ran: a figure
that the excerpt does not give is None, and a reader that gives one invents it. The step time of
two or three lines that differ by half is such a figure.
"""

from .log_sample import Sample

_END = " number of skipped iterations:   0 | number of nan iterations:   0 |"

SAMPLES = (
    Sample(
        "megatron-llm-2023", "github.com/epfLLM/Megatron-LLM/issues/11",
        "".join(
            f" iteration {at:8d}/  250000 | consumed samples: {1024 * at:12d} | elapsed time per "
            f"iteration (ms): {ms} | learning rate: 9.150E-06 | global batch size:  1024 | lm loss:"
            f" 2.504220E+00 | loss scale: 1.0 | grad norm: 0.231 |{_END}\n"
            for at, ms in ((122, 86545.2), (123, 87871.6), (124, 89474.8), (125, 89075.2))
        ),
        {"iterations": 125, "global_batch": 1024, "median_step_s": 88.4734, "world_size": None,
         "nodes": None, "seq_length": None, "tp": None, "tokens_per_s": None, "warmup": 0},
    ),
    Sample(
        "openseek-default0", "github.com/FlagAI-Open/OpenSeek README",
        "[default0]: [2025-05-27 15:23:07] iteration        1/    24000 | consumed samples:        "
        "  1024 | elapsed time per iteration (ms): 271607.0 | throughput per GPU (TFLOP/s/GPU): 40.4"
        " | learning rate: 1.500000E-06 | global batch size:  1024 | lm loss: 1.192634E+01 | "
        "load_balancing_loss: 1.041994E+00 | loss scale: 1.0 | grad norm: 5.960 | num zeros: 0.0 | "
        f"params norm: 238.330 |{_END}\n",
        {"iterations": 1, "global_batch": 1024, "median_step_s": 271.607, "world_size": None,
         "seq_length": None, "tokens_per_s": None},
    ),
    Sample(
        "juelich-jube-seconds", "FZJ NLP benchmark, README, job.out",
        "[default3]: iteration       10/ 3125000 | consumed samples:          960 | elapsed time per"
        " iteration (s): 7.2310 | learning rate: 4.438E-07 | global batch size:    96 | lm loss: "
        f"1.010967E+01 | loss scale: 4096.0 | grad norm: 178.553 |{_END} samples per second: 13.276"
        " | TFLOPs: 101.54 |\n"
        "[default3]: iteration       20/ 3125000 | consumed samples:         1920 | elapsed time per"
        " iteration (s): 5.3551 | learning rate: 8.876E-07 | global batch size:    96 | lm loss: "
        f"8.861832E+00 | loss scale: 4096.0 | grad norm: 46.241 |{_END} samples per second: 17.927 |"
        " TFLOPs: 137.10 |\n",
        {"iterations": 20, "global_batch": 96, "median_step_s": 6.29305, "world_size": None},
    ),
    Sample(
        "bigscience-after-restart", "bigscience-workshop/bigscience chronicles, reshaping",
        "[default7]: iteration    94768/  115311 | consumed samples:    177927088 | consumed tokens:"
        " 364394676224 | elapsed time per iteration (s): 215.82 | learning rate: 7.610E-06 | global "
        f"batch size:  2048 | lm loss: 1.943883E+00 | grad norm: 0.128 | num zeros: 0.0 |{_END} "
        "samples per second: 9.490 | TFLOPs: 145.31 |\nafter restart\n"
        "[default7]: iteration    94769/  115311 | consumed samples:    177929136 | consumed tokens:"
        " 364398870528 | elapsed time per iteration (s): 215.99 | learning rate: 7.609E-06 | global "
        f"batch size:  2048 | lm loss: 1.934365E+00 | grad norm: 0.133 | num zeros: 0.0 |{_END} "
        "samples per second: 9.482 | TFLOPs: 145.20 |\n",
        {"iterations": 94769, "global_batch": 2048, "median_step_s": 215.905, "world_size": None},
    ),
    Sample(
        "megatron-iso-time", "a vendor's page of figures for Megatron-LM with tokens/sec/gpu",
        "".join(
            f"[2025-10-21T16:18:53+08:00] iteration {at:8d}/   20000 | consumed samples: "
            f"{64 * at:12d} | elapsed time per iteration (ms): {ms} | throughput per GPU "
            f"(TFLOP/s/GPU): 513.3 | learning rate: 2.550000E-06 | global batch size:    64 | lm "
            f"loss: 1.959154E+00 | loss scale: 1.0 | grad norm: 30.855 | tokens/sec/gpu: {rate} |"
            f"{_END}\n"
            for at, ms, rate in ((51, 6049.0, 10839.5), (52, 6042.6, 10851.0))
        ),
        {"iterations": 52, "global_batch": 64, "median_step_s": 6.0458, "world_size": None},
    ),
    Sample(
        "primus-colours", "AMD Primus, log in a test of a log collector",
        "[\x1b[32m20251202 09:12:08\x1b[0m][\x1b[36mrank-7/8\x1b[0m][\x1b[1mINFO \x1b[0m] \x1b[1m["
        "--------trainer.py:2560] : iteration 126/ 5000 | consumed samples: 16128 | elapsed time "
        "per iteration (ms): 13372.8/13364.7 | hip mem usage/free/total/usage_ratio: 153.81GB/"
        "102.17GB/255.98GB/60.09% | throughput per GPU (TFLOP/s/GPU): 567.6/568.0 | tokens per GPU "
        "(tokens/s/GPU): 9801.4/9807.3 | learning rate: 9.984820E-06 | global batch size: 128 | lm "
        "loss: 6.548988E-03 | loss scale: 1.0 | grad norm: 0.061 | number of skipped iterations: 0 "
        "| number of nan iterations: 0 |\x1b[0m\n",
        {"iterations": 126, "global_batch": 128, "median_step_s": 13.3728, "world_size": 8},
    ),
    Sample(
        "modellink-misspelt-wrapped", "Ascend ModelLink README, LLaMA 33B",
        " iteration  11/50000 | consumed samples: 5632 | consumed tokens:  11534336 | elapsed time "
        "per iteration (ms):  52728.1 | learning rate:    1.499E-05 | gloabl batch size:  512 | lm "
        "loss:  1.376514E+01 | loss scale:  65536.0 | grad norm:    459.628 | actual seqlen:  2048 "
        "| number of skipped\niterations: 0 | number of nan iterations:   0 | samples per second: "
        "9.710 | TFLOPs: 167.52 |\ntime (ms)\n",
        {"iterations": 11, "global_batch": 512, "median_step_s": 52.7281, "seq_length": 2048,
         "tokens_per_s": 19886.5, "world_size": None},
    ),
    Sample(
        "modellink-tgs", "Ascend ModelLink README, LLaMA2 70B",
        "".join(
            f" iteration {at:8d}/    5000 | consumed samples: {2048 * at:12d} | consumed tokens: "
            f"{2048 * 4096 * at:12d} | elapsed time per iteration (ms): {ms} | learning rate: "
            "7.762E-05 | global batch size:  2048 | lm loss: 1.993132E+00 | loss scale: 16384.0 | "
            f"grad norm: 2.486 | actual seqlen:  4096 |{_END} samples per second: {rate} | TFLOPs: "
            f"148.25 | tgs (tokens/gpu/second): {tgs} time (ms)\n"
            for at, ms, rate, tgs in ((1665, 23205.2, 88.256, 353.02), (1666, 23112.3, 88.611,
                                                                         354.44))
        ),
        {"iterations": 1666, "global_batch": 2048, "median_step_s": 23.15875, "seq_length": 4096,
         "tokens_per_s": 362222, "world_size": 1024},
    ),
    Sample(
        "megatron-2021-timers", "bigscience-workshop/bigscience gpt2 on one node, notes",
        "iteration      200/    1000 | consumed samples:          800 | elapsed time per iteration "
        "(ms): 430.0 | learning rate: 1.342E-04 | global batch size:     4 | lm loss: 7.399415E+00 "
        f"| loss scale: 16384.0 | grad norm: 2.918 |{_END}\n"
        "time (ms) | forward-compute: 53.79 | forward-recv: 38.38 | backward-compute: 138.84 | "
        "backward-send: 0.28 | backward-send-forward-recv: 2.60 | backward-params-all-reduce: 10.17"
        " | backward-embedding-all-reduce: 135.50 | optimizer-copy-to-main-grad: 4.48 | optimizer-"
        "unscale-and-check-inf: 12.63 | optimizer-clip-main-grad: 8.62 | optimizer-copy-main-to-"
        "model-params: 4.42 | optimizer: 49.42 | batch-generator: 2.35\n",
        {"iterations": 200, "global_batch": 4, "median_step_s": 0.43, "world_size": None,
         "format": "megatron"},
    ),
    Sample(
        "megatron-bert-skipped", "github.com/NVIDIA/nccl/issues/743",
        "time (ms) | model-and-optimizer-setup: 294.00 | train/valid/test-data-iterators-setup: "
        "3654.81\n"
        " iteration       10/ 1000000 | consumed samples:           40 | elapsed time per iteration "
        "(ms): 356.2 | learning rate: 0.000E+00 | global batch size:     4 | loss scale: 8388608.0 "
        "| number of skipped iterations:  10 | number of nan iterations:   0 |\n"
        "time (ms) | forward-compute: 193.77 | backward-compute: 73.02 | backward-params-all-reduce"
        ": 20.10 | optimizer: 63.01 | batch-generator: 25.27\n"
        " iteration       20/ 1000000 | consumed samples:           80 | elapsed time per iteration "
        "(ms): 140.6 | learning rate: 2.020E-08 | global batch size:     4 | lm loss: 1.005022E+01 "
        "| sop loss: 8.174902E-01 | loss scale: 32768.0 | grad norm: 217.199 |\n",
        {"iterations": 20, "global_batch": 4, "median_step_s": None, "skipped": 10},
    ),
    Sample(
        "argonne-underscores", "argonne-lcf/Megatron-DeepSpeed notes, Aurora",
        "[2024-09-16 22:59:19.287338][INFO][training_log:661] -  iteration=       1/  635782 | "
        "consumed_samples=         768 | consumed_tokens=     3145728 | "
        "elapsed_time_per_iteration_ms=29570.0 | learning_rate=9.4372e-09 | global_batch_size=768 |"
        " lm loss=11.167250 | loss_scale=1.0 | grad_norm=6.363 | actual_seqlen= 4096 | "
        "number_of_skipped_iterations=  0 | number_of_nan_iterations=  0 | samples_per_second="
        "25.972 | tokens_per_gpu_per_second_tgs=4432.597 | [LM]TFLOPs=20.30 | [DS]TFLOPs=26.18 |\n",
        {"iterations": 1, "global_batch": 768, "median_step_s": 29.57, "seq_length": 4096,
         "world_size": 24, "tokens_per_s": 106382},
    ),
    Sample(
        "argonne-deepspeed", "argonne-lcf/Megatron-DeepSpeed notes, Polaris",
        "[2024-03-07 15:27:02,646] [INFO] [timer.py:260:stop] epoch=0/micro_step=199/global_step="
        "199, RunningAvgSamplesPerSec=58.730622229657506, CurrSamplesPerSec=61.35304005128382, "
        "MemAllocated=6.01GB, MaxMemAllocated=19.52GB\n"
        " iteration      199/  317892 | consumed samples:       152832 | consumed tokens:    "
        "625999872 | elapsed time per iteration (ms): 14287.5 | learning rate: 2.407E-04 | global "
        "batch size:   768 | lm loss: 5.905366E+00 | loss scale: 8192.0 | actual seqlen:  4096 |"
        f"{_END} samples per second: 53.753 | tokens per gpu per second (tgs): 1146.733 | TFLOPs: "
        "69.85 |\n",
        {"iterations": 199, "global_batch": 768, "median_step_s": 14.2875, "seq_length": 4096,
         "world_size": 192, "tokens_per_s": 220173},
    ),
    Sample(
        "bridge-nemo-run", "NVIDIA/cloudai tests, log of Megatron-Bridge under NeMo-Run",
        "ain_fp8_mx/0 Step Time : 9.09s GPU utilization: 663.5MODEL_TFLOP/s/GPU\n"
        "ain_fp8_mx/0  [2025-12-22 15:18:33] iteration       50/      50 | consumed samples:       "
        " 25600 | elapsed time per iteration (ms): 9089.0 | learning rate: 3.000000E-05 | global "
        "batch size:   512 | lm loss: 8.114214E+00 | load_balancing_loss: 1.000000E+00 | loss scale"
        f": 1.0 | grad norm: 0.042 |{_END}\n",
        {"iterations": 50, "global_batch": 512, "median_step_s": 9.089, "world_size": None},
    ),
    Sample(
        "nanotron-console", "github.com/huggingface/nanotron/issues/390",
        "".join(
            f"10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]: iteration: {at} / 378950 | consumed_tokens"
            ": 85.8G | elapsed_time_per_iteration_ms: 11.5K | tokens_per_sec: 22.8K | "
            "tokens_per_sec_per_gpu: 11.4K | global_batch_size: 64 | lm_loss: 2.38 | lr: 1e-05 | "
            "model_tflops_per_gpu: 38.3 | hardware_tflops_per_gpu: 38.3 | grad_norm: 1.25\n"
            for at in (327281, 327282, 327283, 327284)
        ),
        {"iterations": 327284, "global_batch": 64, "median_step_s": 11.5, "world_size": 2,
         "tokens_per_s": 22800, "seq_length": None},
    ),
    Sample(
        "nanotron-console-prefix", "github.com/huggingface/nanotron/issues/233",
        "[0434:0]:11/01/2024 11:05:18 [INFO|DP=0|PP=0|TP=0|lrdn0434]: iteration: 12001 / 17500 | "
        "consumed_tokens: 25.2G | elapsed_time_per_iteration_ms: 28.2K | tokens_per_sec: 74.5K | "
        "tokens_per_sec_per_gpu: 2.33K | global_batch_size: 1.02K | lm_loss: 2.3 | lr: 0.000289 | "
        "model_tflops_per_gpu: 26.7 | hardware_tflops_per_gpu: 26.7 | grad_norm: 0.15 | "
        "cuda_memory_allocated: 8.86G | cuda_max_memory_reserved: 34.1G\n",
        {"iterations": 12001, "global_batch": None, "median_step_s": 28.2, "world_size": 32,
         "tokens_per_s": 74500},
    ),
    Sample(
        "bionemo", "github.com/NVIDIA-BioNeMo/bionemo-recipes/pull/740",
        "".join(
            f"Training epoch 0, iteration {at}/149 | lr: 3e-05 | consumed_samples: {at + 1} | "
            f"global_batch_size: 1 | global_step: {at} | reduced_train_loss: 1.233 | "
            f"train_step_timing in s: {seconds} | val_loss: 4.106\n"
            for at, seconds in ((120, 0.03146), (121, 0.03163), (122, 0.03215), (123, 0.03157),
                                (124, 0.0317), (125, 0.03147))
        ),
        {"iterations": 126, "global_batch": 1, "median_step_s": 0.0316, "world_size": None,
         "warmup": 0},
    ),
    Sample(
        "nemo-1-progress-bar", "NVIDIA dgxc-benchmarking README, Nemotron 15B",
        "Epoch 0: :  98%|█████████▊| 98/100 [10:41<00:13, reduced_train_loss=0.0172, "
        "global_step=97.00, consumed_samples=25088.0, train_step_timing in s=3.140]\r"
        "Epoch 0: :  99%|█████████▉| 99/100 [10:44<00:06, reduced_train_loss=0.0172, "
        "global_step=98.00, consumed_samples=25344.0, train_step_timing in s=3.120]\r"
        "Epoch 0: : 100%|██████████| 100/100 [10:48<00:00, reduced_train_loss=0.0172, "
        "global_step=99.00, consumed_samples=25600.0, train_step_timing in s=3.130]\n",
        {"iterations": 100, "median_step_s": 3.13, "world_size": None, "global_batch": 256},
    ),
    Sample(
        "nemo-dllogger", "AI-Hypercomputer/gpu-recipes README, dllogger.json",
        "".join(
            f'DLLL {{"timestamp": "1739210331.717398", "elapsedtime": "1750.2", "type": "LOG", '
            f'"step": {at}, "data": {{"reduced_train_loss": 10.91, "lr": 1.2e-06, "global_step": '
            f'{at}.0, "consumed_samples": {2016 * (at + 1)}.0, "train_backward_timing in s": '
            f'4.6e-05, "train_step_timing in s": {seconds}, "epoch": 0}}}}\n'
            for at, seconds in ((15, 92.31), (16, 92.28738164901733))
        ),
        {"iterations": 17, "median_step_s": 92.2987, "world_size": None, "global_batch": 2016},
    ),
    Sample(
        "nemo-wandb-summary", "NVIDIA-NeMo/Speech, summary that W&B prints",
        "Training epoch 0, iteration 0/2 | lr: 1e-06 | global_batch_size: 8 | global_step: 0 | "
        "reduced_train_loss: 1.315 | train_step_timing in s: 7.126\n"
        "Training epoch 0, iteration 1/2 | lr: 3e-06 | global_batch_size: 8 | global_step: 1 | "
        "reduced_train_loss: 1.653 | train_step_timing in s: 2.505 | consumed_samples: 16\n"
        "Training epoch 0, iteration 2/2 | lr: 5e-06 | global_batch_size: 8 | global_step: 2 | "
        "reduced_train_loss: 1.278 | train_step_timing in s: 1.505 | consumed_samples: 24\n"
        "wandb:     train_step_timing in s ▄▂▅█▄▂▃▆▅▁\nwandb: Run summary:\n"
        "wandb:                global_step 1999999.0\nwandb:     train_step_timing in s 0.123\n",
        {"iterations": 3, "median_step_s": None, "global_batch": 8, "world_size": None},
    ),
    Sample(
        "torchtitan-2025-02", "a study of H200 nodes, torchtitan Llama 3 8B",
        "    [rank0]:2025-02-13 11:33:12,140 - root - INFO - Building 1-D device mesh with "
        "['dp_shard'], [8]\n"
        "    [rank0]:2025-02-13 11:33:29,156 - root - INFO - Model llama3 8B \x1b[31msize: "
        "8,030,261,248 total parameters\n"
        "    [rank0]:2025-02-13 11:33:29,482 - root - INFO - Training starts at step 1, with local "
        "batch size 1, global batch size 8, sequence length 8192, total steps 100 (warmup 200)\n"
        + "".join(
            f"    [rank0]:2025-02-13 11:33:35,026 - root - INFO - step: {at:2}  loss: 12.2417  "
            f"mmemory: 42.08GiB(30.10%)  tps: {tps:,}  mfu: 8.65%\n"
            for at, tps in ((1, 1478), (10, 7026), (20, 7080), (30, 7082), (40, 7072), (50, 7057),
                            (60, 7051), (70, 7042), (80, 7036), (90, 7033), (100, 6856))
        ),
        {"iterations": 100, "global_batch": 8, "seq_length": 8192, "world_size": 8, "dp": 8,
         "tp": 1, "pp": 1, "median_step_s": 8192 / 7046.5, "tokens_per_s": 8 * 7046.5,
         "warmup": 1},
    ),
    Sample(
        "torchtitan-eight-ranks", "github.com/pytorch/torchtitan/pull/2389",
        "".join(
            "[titan] 2026-02-24 19:46:17,508 - root - INFO - step: "
            f"{at:2}  loss:  7.62585  grad_norm: 26.6250  memory: 66.91GiB(37.51%)  tps: {tps:,}  "
            "tflops: 314.71  mfu: 13.99%\n"
            for at, rates in ((4, (10050, 10050, 10050, 10050, 10049, 10050, 10049)),
                              (5, (10007, 10007, 10007)))
            for tps in rates
        ),
        {"iterations": 5, "median_step_s": None, "world_size": None, "global_batch": None,
         "tokens_per_s": None, "entries": 2},
    ),
    Sample(
        "torchtitan-wps", "a log of torchtitan of 2024 with words per second",
        "".join(
            f"2024-10-03 16:44:36,851 - root - INFO - step: {at:2}  loss: 10.3083  memory: "
            f"33.11GiB(74.54%)  wps: {wps:,}  mfu: 26.85%\n"
            for at, wps in ((2, 1962), (3, 1954), (4, 1944), (5, 1956), (6, 1957), (7, 1950))
        ),
        {"iterations": 7, "median_step_s": None, "world_size": None, "tokens_per_s": None},
    ),
    Sample(
        "maxtext-docs", "github.com/AI-Hypercomputer/maxtext, understand_logs_and_metrics",
        "number parameters: 15.933 billion\n"
        + "".join(
            f"completed step: {at}, seconds: {s}, TFLOP/s/device: {f}, Tokens/s/device: {t}, "
            "total_weights: 196608, loss: 12.038\n"
            for at, s, f, t in ((0, 44.923, 17.022, 1094.129), (1, 0.319, 2400.734, 154316.608),
                                (2, 5.658, 135.158, 8687.815), (3, 5.402, 141.542, 9098.189),
                                (4, 5.669, 134.884, 8670.207), (5, 5.668, 134.909, 8671.794))
        ),
        {"iterations": 6, "world_size": 4, "median_step_s": 5.663, "tokens_per_s": 34718,
         "warmup": 2},
    ),
    Sample(
        "maxtext-2023", "google/maxtext 2023, xpk, TFLOP/s without device",
        "".join(
            f"# 2023-10-03 11:48:40.025 PDT\n# completed step: {at}, seconds: {s:.3f}, TFLOP/s: "
            "52.876, loss: 9.206\n"
            for at, s in ((1, 8.693), (2, 0.206), (3, 0.282), (4, 0.285), (5, 0.278), (95, 0.281),
                          (96, 0.282))
        ),
        {"iterations": 97, "world_size": None, "median_step_s": 0.282, "warmup": 2,
         "tokens_per_s": None, "global_batch": None},
    ),
    Sample(
        "maxtext-absl", "github.com/AI-Hypercomputer/maxtext/pull/4847",
        "".join(
            f"I0811 21:54:55.531340 138304841739136 metric_logger.py:226] completed step: {at}, "
            f"seconds: {s}, TFLOP/s/device: {f}, Tokens/s/device: {t}, total_weights: 1572864, "
            "loss: 12.979, lm_loss: 12.979, perplexity: 433358.281\n"
            for at, s, f, t in ((1, 0.631, 5688.282, 311629.521), (2, 10.228, 350.869, 19222.175),
                                (3, 10.344, 346.932, 19006.461))
        ),
        {"iterations": 4, "world_size": 8, "median_step_s": 10.286, "tokens_per_s": 152911},
    ),
    Sample(
        "maxtext-padding", "docs.cloud.google.com, Pathways, MaxText with padded batches",
        "".join(
            f"completed step: {at}, seconds: {s}, TFLOP/s/device: 87.349, Tokens/s/device: {t}, "
            f"total_weights: {w}, loss: 10.888\n"
            for at, s, t, w in ((1, 0.484, 2117.382, 2945), (2, 0.407, 2513.735, 3253),
                                (3, 0.248, 4128.167, 3154), (4, 0.216, 4729.880, 3119),
                                (5, 0.272, 3764.512, 2837))
        ),
        {"iterations": 6, "world_size": None, "tokens_per_s": None, "global_batch": None},
    ),
    Sample(
        "maxtext-two-spaces", "notes on a 300B run on 256 TPU v5p",
        "number parameters: 298.786 billion\n"
        "completed step: 0, seconds: 74.031, TFLOP/s/device: 37.835,  loss: 13.424\n"
        "completed step: 1, seconds:  0.323, TFLOP/s/device: 8671.953, loss: 13.424\n"
        "completed step: 2, seconds: 106.792, TFLOP/s/device: 26.228, loss: 13.008\n"
        "completed step: 3, seconds: 49.962, TFLOP/s/device: 56.062, main_model_loss: 11.550\n"
        "completed step: 4, seconds: 49.994, TFLOP/s/device: 56.026, main_model_loss: 11.337\n"
        "completed step: 5, seconds: 49.970, TFLOP/s/device: 56.050, main_model_loss: 11.300\n",
        {"iterations": 6, "median_step_s": 49.97, "world_size": None, "warmup": 3},
    ),
    Sample(
        "deepspeed-no-batch", "eth-cscs, DeepSpeed BERT on Piz Daint",
        "".join(
            f"[2022-08-29 06:58:56,121] [INFO] [logging.py:68:log_dist] [Rank 0] step={at}, "
            "skipped=17, lr=[5e-05], mom=[(0.9, 0.999)]\n"
            f"[2022-08-29 06:58:56,176] [INFO] [timer.py:198:stop] 0/{at}, "
            f"RunningAvgSamplesPerSec=232.7340551694273, CurrSamplesPerSec={rate}, MemAllocated="
            "0.36GB, MaxMemAllocated=15.06GB\n"
            for at, rate in ((20, 227.48090316379353), (30, 227.45044884073528),
                             (40, 227.7217889790298))
        ),
        {"iterations": 40, "skipped": 17, "median_step_s": None, "global_batch": None,
         "world_size": None},
    ),
    Sample(
        "deepspeed-forward-names", "github.com/huggingface/accelerate/issues/1589",
        "  3%|███    | 12/345 [00:07<06:50,  1.23s/it][2023-06-21 07:39:09,625] [INFO] [logging.py:"
        "96:log_dist] [Rank 0] rank=0 time (ms) | optimizer_allgather: 7.96 | optimizer_gradients: "
        "0.02 | optimizer_step: 60.64\n"
        "[2023-06-21 07:39:09,625] [INFO] [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | "
        "forward_microstep: 27.48 | backward_microstep: 73.59 | backward_inner_microstep: 51.05 | "
        "backward_allreduce_microstep: 22.49 | step_microstep: 72.59\n"
        "[2023-06-21 07:39:09,443] [INFO] [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | "
        "forward: 27.41 | backward: 73.44 | backward_inner: 50.99 | backward_allreduce: 22.40 | "
        "step: 72.82\n"
        "[2023-06-21 07:39:09,626] [INFO] [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | "
        "forward: 27.46 | backward: 73.60 | backward_inner: 51.05 | backward_allreduce: 22.50 | "
        "step: 72.60\n",
        {"median_step_s": 0.173665, "world_size": None, "global_batch": None},
    ),
    Sample(
        "deepspeed-microsteps-only", "github.com/deepspeedai/DeepSpeed/issues/255",
        "[INFO 2020-06-08 06:02:19] 0/450, SamplesPerSec=7.458824487454903\n"
        + "time (ms) | forward_microstep: 193.65 | backward_microstep: 329.25 | "
        "backward_inner_microstep: 329.14 | backward_allreduce_microstep: 0.05 | step_microstep: "
        "0.92\n" * 4,
        {"median_step_s": None, "mean_step_s": None, "world_size": None, "global_batch": None},
    ),
    Sample(
        "deepspeed-pipeline", "github.com/deepspeedai/DeepSpeed/issues/2264",
        "steps: 20 loss: 4.6178 iter time (s): 0.994 samples/sec: 257.601\n"
        "[2022-08-25 02:58:04,341] [INFO] [logging.py:68:log_dist] [Rank 0] rank=0 time (ms) | "
        "pipe_send_output: 41.71 | pipe_recv_grad: 1725.64\n"
        "[2022-08-25 02:58:13,587] [INFO] [logging.py:68:log_dist] [Rank 0] step=30, skipped=0, "
        "lr=[0.001], mom=[[0.9, 0.999]]\n"
        "steps: 30 loss: 4.5810 iter time (s): 0.996 samples/sec: 257.081\n",
        {"iterations": 30, "median_step_s": 0.995, "global_batch": 256, "world_size": None},
    ),
    Sample(
        "hf-unsloth", "a fine-tuning script, 60 steps on one GPU",
        "{'loss': 1.6957, 'grad_norm': 0.76, 'learning_rate': 0.0, 'epoch': 0.1}\n"
        "{'train_runtime': 364.4972, 'train_samples_per_second': 1.317, 'train_steps_per_second': "
        "0.165, 'train_loss': 2.253616464138031, 'epoch': 0.1}\n"
        "100%|████████████| 60/60 [06:04<00:00,  6.07s/it]\n",
        {"iterations": 60, "global_batch": 8, "mean_step_s": 6.07495, "world_size": None,
         "tokens_per_s": None, "median_step_s": None},
    ),
    Sample(
        "hf-progress-bar-steps", "a fine-tuning of RoBERTa, its output",
        "{'eval_loss': 0.4218, 'eval_runtime': 121.37, 'eval_samples_per_second': 3.065, "
        "'eval_steps_per_second': 0.198, 'epoch': 3.0}\n"
        "{'train_runtime': 6217.8269, 'train_samples_per_second': 0.837, 'train_steps_per_second': "
        "0.053, 'train_loss': 1.018005744397458, 'epoch': 3.0}\n"
        "100%|███████████| 327/327 [1:43:37<00:00, 19.01s/it]\n"
        "100%|███████████| 24/24 [01:58<00:00,  4.92s/it]\n",
        {"iterations": 327, "mean_step_s": 19.0148, "world_size": None, "tokens_per_s": None},
    ),
    Sample(
        "hf-wrapped-summary", "Habana, BERT large on Gaudi",
        "--per_device_train_batch_size 32 \\\n--max_seq_length 128 \\\n"
        "{'train_runtime': 159.0603, \n 'train_samples_per_second': 69.181, \n "
        "'train_steps_per_second': 2.169, \n 'train_loss': 0.3333333333333333, \n 'epoch': 3.0}\n",
        {"iterations": 345, "mean_step_s": 0.461044, "world_size": None, "median_step_s": None},
    ),
    Sample(
        "hf-4.3-steps-as-samples", "huggingface/transformers docs, 2 GPUs with NVLink",
        "torchrun --nproc_per_node 2 run_clm.py --model_name_or_path gpt2 --do_train "
        "--per_device_train_batch_size 4 --block_size 512 --max_steps 200\n"
        "{'train_runtime': 101.9003, 'train_samples_per_second': 1.963, 'epoch': 0.69}\n",
        {"iterations": 200, "mean_step_s": 0.5095, "tokens_per_s": None, "global_batch": None},
    ),
    Sample(
        "hf-header", "github.com/huggingface/open-r1/issues/483",
        "[INFO|trainer.py:2405] 2025-03-06 12:04:09,913 >> ***** Running training *****\n"
        "[INFO|trainer.py:2406] 2025-03-06 12:04:09,913 >>   Num examples = 5,498\n"
        "[INFO|trainer.py:2408] 2025-03-06 12:04:09,914 >>   Instantaneous batch size per device = "
        "8\n[INFO|trainer.py:2411] 2025-03-06 12:04:09,914 >>   Total train batch size (w. parallel"
        ", distributed & accumulation) = 224\n"
        "[INFO|trainer.py:2412] 2025-03-06 12:04:09,914 >>   Gradient Accumulation steps = 4\n"
        "[INFO|trainer.py:2413] 2025-03-06 12:04:09,914 >>   Total optimization steps = 196\n"
        "[INFO|trainer.py:2414] 2025-03-06 12:04:09,915 >>   Number of trainable parameters = "
        "7,615,616,512\n"
        "{'train_runtime': 7056.0, 'train_samples_per_second': 0.779, 'train_steps_per_second': "
        "0.028, 'train_loss': 0.1, 'epoch': 1.0}\n",
        {"iterations": 196, "global_batch": 224, "world_size": 7, "mean_step_s": 36.0},
    ),
    Sample(
        "nanogpt", "github.com/karpathy/nanoGPT/issues/110: no format that is read",
        "torchrun --standalone --nproc_per_node=8 train.py\n"
        "iter 1631: loss 4.0863, time 561.94ms\niter 1632: loss 3.7441, time 563.15ms\n"
        "iter 1633: loss 3.9848, time 562.11ms\niter 1634: loss 3.8716, time 562.80ms\n",
        {"median_step_s": None, "global_batch": None, "tokens_per_s": None},
    ),
)  # fmt: skip
