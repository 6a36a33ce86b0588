# ruff: noqa: E501 (lines as they were printed)
"""A third set of logs from public repositories and issues: other versions, other launchers.

As in real_logs.py, fields that no reader uses are shortened, and `truth` was written down by eye
before any reader ran. Where several lines differ in their figures only, they are made from these.
"""

from .log_sample import Sample

_END = " number of skipped iterations: {:3d} | number of nan iterations:   0 |"


def _bar(at: str, fields: str) -> str:
    return f"Epoch 0: :  {at} [06:19<07:13, {fields}]"


TRAINING = (
    Sample(
        "megatron-one-gpu-fp16", "notes of April 2025 on Megatron-LM, GPT-2 on one GPU",
        "".join(
            f" [2025-04-13 23:41:12] iteration {at:8d}/    1000 | consumed samples: {16 * at:12d} | "
            f"elapsed time per iteration (ms): {ms} | learning rate: 4.0E-05 | global batch size:    "
            f"16 | lm loss: 7.07E+00 | loss scale: 4096.0 | grad norm: 3.874 |{_END.format(skipped)}\n"
            + ("(min, max) time across ranks (ms):\n    evaluate .......: (2052.52, 2052.52)\n"
               f" validation loss at iteration {at} | lm loss value: 7.398865E+00 | lm loss PPL: 1.63E+03 |\n"
               if at in (50, 100, 150) else "")
            + ("saving checkpoint at iteration     100 to /root/GPT2_pretrain_WS1 in torch_dist format\n"
               "  successfully saved checkpoint from iteration     100 to /root/GPT2_pretrain_WS1 [ t 1/1, p 1/1 ]\n"
               "(min, max) time across ranks (ms):\n    save-checkpoint ....: (3413.14, 3413.14)\n"
               if at == 100 else "")
            for at, ms, skipped in (
                (10, 1147.6, 10), (20, 820.7, 6), (30, 821.8, 5), (40, 849.8, 0), (50, 904.5, 0),
                (60, 837.6, 0), (70, 840.3, 0), (80, 849.5, 0), (90, 832.5, 0), (100, 869.1, 0),
                (110, 1069.8, 0), (120, 774.3, 0), (130, 792.7, 0), (140, 860.2, 0), (150, 1296.2, 0),
                (160, 822.7, 0), (170, 839.6, 0), (180, 867.7, 0), (190, 1265.2, 0), (200, 901.4, 0))
        ),
        {"iterations": 200, "global_batch": 16, "median_step_s": 0.8495, "warmup": 1, "skipped": 21,
         "world_size": None, "nodes": None, "seq_length": None, "tokens_per_s": None},
    ),
    Sample(
        "megatron-mixtral", "github.com/NVIDIA/Megatron-LM/issues/756",
        "".join(
            f" [2024-04-06 03:02:12] iteration {at:8d}/     100 | consumed samples: {128 * at:12d} | "
            f"elapsed time per iteration (ms): {ms} | throughput per GPU (TFLOP/s/GPU): 243.6 | "
            "learning rate: 1.420000E-05 | global batch size:   128 | lm loss: 1.818812E+00 | "
            "load_balancing_loss: 1.013377E+00 | loss scale: 1.0 | grad norm: 1.300 | num zeros: 0.0 |"
            f"{_END.format(0)}\n"
            for at, ms in ((71, 5361.6), (72, 5470.7), (73, 5829.9))
        ),
        {"iterations": 73, "global_batch": 128, "median_step_s": 5.4707, "world_size": None,
         "tokens_per_s": None},
    ),
    Sample(
        "megatron-last-of-four-ranks", "a comparison of Megatron-LM and torchtitan, 4 H200",
        "[rank1]:Megatron-LM stock parallelism: dp=4 pp=1 ep=4 schedule=1F1B microbatches=1 stages=1\n"
        "[rank0]:using world size: 4, data-parallel size: 4, context-parallel size: 1, hierarchical "
        "context-parallel sizes: None, tensor-model-parallel size: 1, pipeline-model-parallel size: 1\n"
        "[rank0]:------------------------ arguments ------------------------\n"
        "[rank0]:  _is_global_batch_size_explicitly_specified ...... True\n"
        "[rank0]:  bench_local_batch_size .......................... 4\n"
        "[rank0]:  encoder_num_layers .............................. 16\n"
        "[rank0]:  eval_global_batch_size .......................... 4\n"
        + "".join(
            f"[rank3]: [2026-09-23 03:07:35.961782] iteration {at:8d}/      30 | consumed samples: "
            f"{4 * at:12d} | elapsed time per iteration (ms): {ms} | throughput per GPU "
            "(TFLOP/s/GPU): 201.6 | learning rate: 2.285714E-04 | global batch size:     4 | lm loss: "
            f"3.255721E+00 | loss scale: 1.0 | grad norm: 0.830 |{_END.format(0)}\n"
            + "".join(
                f"[rank{rank}]:step: {at}  loss:  3.25572  grad_norm:  0.8301  memory: "
                f"94.60GiB(67.67%)  tps: 25,17{rank}  tflops: 265.53  mfu: 26.85%\n"
                for rank in (3, 0, 1, 2)
            )
            for at, ms in ((22, 650.8), (23, 650.8), (24, 657.5), (25, 655.3), (26, 667.3),
                           (27, 690.8), (28, 999.5), (29, 723.0), (30, 649.3))
        ),
        {"iterations": 30, "global_batch": 4, "median_step_s": 0.6575, "world_size": 4, "dp": 4,
         "tp": 1, "pp": 1, "format": "megatron", "entries": 9},
    ),
    Sample(
        "argonne-megatron-deepspeed-2024-04", "argonne-lcf/Megatron-DeepSpeed, notes on Polaris",
        "".join(
            "[2024-04-21 02:45:24,650] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | "
            "optimizer_allgather: 536.33 | optimizer_gradients: 4.05 | optimizer_step: 19.34\n"
            f"[2024-04-21 02:45:24,651] [INFO] [logging.py:96:log_dist] [Rank 0] step={at}, skipped=0, "
            "lr=[1.0066311829174689e-07], mom=[(0.9, 0.999)]\n"
            f"[2024-04-21 02:45:40,722] [INFO] [timer.py:260:stop] epoch=0/micro_step={at}/global_step="
            f"{at}, RunningAvgSamplesPerSec=74.68528989415996, CurrSamplesPerSec=74.68528989415996, "
            "MemAllocated=4.75GB, MaxMemAllocated=15.59GB\n"
            "[2024-04-21 02:45:24,652] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: "
            "3859.30 | bwd: 11267.97 | bwd_inner: 10508.40 | bwd_allreduce: 759.40 | step: 829.19\n"
            f"[2024-04-21 02:45:24][INFO][training:1251] -  iteration={at:8d}/  317892 | "
            f"consumed_samples={256 * at:12d} | consumed_tokens={2**20 * at:12d} | "
            f"elapsed_time_per_iteration_ms={ms} | learning_rate=0.000000 | global_batch_size=  256 | "
            "lm loss=11.208171 | loss_scale=65536.0 | actual_seqlen= 4096 | "
            "number_of_skipped_iterations=  0 | number_of_nan_iterations=  0 | samples_per_second="
            f"{rate} | tokens_per_gpu_per_second_tgs={tgs} | TFLOPs=160.07 |\n"
            for at, ms, rate, tgs in (
                (2, 16030.6, 15.969, 8176.383), (3, 16071.8, 15.929, 8155.393),
                (4, 16069.2, 15.931, 8156.733), (5, 16053.0, 15.947, 8164.952),
                (6, 16092.2, 15.908, 8145.085), (7, 16106.8, 15.894, 8137.692),
                (8, 16178.1, 15.824, 8101.811), (9, 16179.4, 15.823, 8101.150))
        ),
        {"iterations": 9, "global_batch": 256, "median_step_s": 16.082, "seq_length": 4096,
         "world_size": 8, "tokens_per_s": 65202, "warmup": 0, "format": "megatron", "entries": 8},
    ),
    Sample(
        "torchtitan-docs-no-mesh", "pytorch/ao documentation, Llama 3 8B in float8",
        "".join(
            f"    [rank0]:[titan] 2025-06-04 08:51:48,074 - root - INFO - step: {at:2}  loss: 12.2254  "
            f"memory: 30.99GiB(32.62%)  tps: {tps:,}  tflops: 407.35  mfu: 41.19%\n"
            for at, tps in ((1, 375), (10, 7034), (20, 7022), (30, 7014))
        ),
        {"iterations": 30, "median_step_s": None, "world_size": None, "tokens_per_s": None,
         "global_batch": None, "entries": 4},
    ),
    Sample(
        "torchtitan-15-to-21", "github.com/pytorch/torchtitan/pull/3393",
        "".join(
            f"[rank0]:[titan] 2026-05-18 16:04:46,338 - root - INFO - step: {at}  loss:  3.24405  "
            f"grad_norm:  0.8319  memory:  9.46GiB(64.99%)  tps: {tps:,}  tflops: 0.52  mfu: 0.17%\n"
            for at, tps in ((14, 7282), (15, 7334), (16, 7313), (17, 7282), (18, 7322), (19, 7309),
                            (20, 7272))
        ),
        {"iterations": 20, "median_step_s": None, "world_size": None, "tokens_per_s": None},
    ),
    Sample(
        "torchtitan-steps-of-total", "documents of aixsim, a fork of torchtitan of 2025",
        "[rank0]:2025-04-01 00:25:47,084 - root - INFO - step: 630/644 = 97.8261%  loss:  6.2116  "
        "memory: 87.04GiB(93.48%)  tps: 52,100  mfu: 3.09%\n"
        "[rank0]:2025-04-01 00:25:47,084 - root - INFO - step: 640/644 = 99.3789%  loss:  6.2116  "
        "memory: 87.04GiB(93.48%)  tps: 52,142  mfu: 3.09%\n"
        "[rank0]:2025-04-01 00:25:54,090 - root - INFO - Saving a full checkpoint at last step, step 644.\n",
        {"iterations": 640, "median_step_s": None, "world_size": None, "tokens_per_s": None},
    ),
    Sample(
        "torchtitan-dates-between", "notes on a custom model in torchtitan, January 2026",
        "2026-01-09 19:01:15\n[titan] 2026-01-09 19:01:15,198 - root - INFO - Model "
        "transformers_modeling_backend_custom llama32_1b_tok32k size: 1,040,254,976 total parameters\n"
        "2026-01-09 19:01:15\n[titan] 2026-01-09 19:01:15,216 - root - INFO - Applied DDP to the model\n"
        + "".join(
            f"2026-01-09 19:02:58\n[titan] 2026-01-09 19:02:58,105 - root - INFO - step: {at}  loss:  "
            f"9.4939  grad_norm: 18.2500  memory: 72.82GiB(91.97%)  tps: {tps:,}  tflops: 412.06  mfu: "
            "41.66%\n2026-01-09 19:03:41\n[titan] 2026-01-09 19:03:41,340 - root - INFO - [GC] "
            "Performing periodic GC collection took 0.00 seconds\n"
            for at, tps in ((100, 55314), (150, 55069), (200, 54783))
        ),
        {"iterations": 200, "median_step_s": None, "world_size": None, "tokens_per_s": None},
    ),
    Sample(
        "torchtitan-xpu-command-line", "saforem2/torchtitan, two nodes of Sunspot with 24 devices",
        "; ezpz launch python3 -m torchtitan.experiments.ezpz.train --model.name ezpz.agpt "
        "--model.flavor 2b --training.seq_len 8192 --training.local_batch_size=1 --compile.enable "
        "--training.global_batch_size=48 --metrics.log_freq=1\n"
        "[2026-02-11 00:53:08,502360][I][ezpz/launch:391:build_executable] (1.) launch_cmd: mpiexec "
        "--envall --np=24 --ppn=12 --hostfile=/var/spool/pbs/aux/12461964 --no-vni\n"
        "[titan] 2026-02-11 00:53:31,856 - __main__ - INFO - Model ezpz.agpt 2b size: 1,703,462,912 "
        "total parameters\n"
        + "".join(
            f"[titan] 2026-02-11 00:54:17,768 - root - INFO - step: {at:2}  loss: 12.85991  grad_norm:  "
            f"2.1345  memory: 19.45GiB(30.39%)  tps: {tps:,}  tflops: 56.37  mfu: 18.91%\n"
            "[titan] 2026-02-11 00:54:17,777 - root - WARNING - Dataset c4_test is being re-looped\n"
            for at, tps in enumerate((5941, 5902, 5914, 5888, 5909, 5924, 5920, 5919, 5935, 5937, 5928,
                                      5947, 5947, 5949, 5948, 5944, 5942, 5936), start=2)
        ),
        {"iterations": 19, "world_size": 24, "seq_length": 8192, "global_batch": 48,
         "median_step_s": 2.7604, "tokens_per_s": 142452, "warmup": 0},
    ),
    Sample(
        "torchtitan-0.2.2-four-ranks", "a comparison of Megatron-LM and torchtitan, 4 H200, experts",
        "+ NGPU=4\n+ torchrun --nproc_per_node=4 --rdzv_backend c10d --local-ranks-filter 0,1,2,3 --role "
        "rank --tee 3 -m torchtitan.train --module llama3 --config llama3_debugmodel --training.seq-len "
        "4096 --training.steps 80 --training.local-batch-size 4 --compile.enable\n"
        "[rank1]:[titan] 2026-09-23 11:07:11,653 - root - INFO - Building device mesh with parallelism: "
        "pp=1, dp_replicate=1, dp_shard=4, cp=1, tp=1, ep=4\n"
        "[rank1]:[titan] 2026-09-23 11:07:11,910 - root - INFO - Model qwen3 piper_1B size: "
        "13,084,744,704 total parameters\n"
        "[rank2]:[titan] 2026-09-23 11:07:12,261 - root - INFO - Building device mesh with parallelism: "
        "pp=1, dp_replicate=1, dp_shard=4, cp=1, tp=1, ep=4\n"
        "[rank0]:[titan] 2026-09-23 11:07:17,883 - root - INFO - Trainer is initialized with local batch "
        "size 4, global batch size 16, gradient accumulation steps 1, sequence length 4096, total steps "
        "80 (warmup 2)\n"
        + "".join(
            f"[rank{rank}]:[titan] 2026-09-23 11:07:42,303 - root - INFO - step: {at:2}  loss: 12.42950  "
            f"grad_norm: 24.5000  memory: 77.78GiB(55.63%)  tps: {tps:,}  tflops: 7.01  mfu: 0.71%\n"
            for at, tps in ((1, 551), (2, 14482), (3, 19388), (4, 8200), (5, 20823), (6, 19912),
                            (7, 19508), (8, 20620), (9, 20694), (10, 21098))
            for rank in (2, 1, 3, 0)
        ),
        {"iterations": 10, "world_size": 4, "seq_length": 4096, "global_batch": 16, "tp": 1, "pp": 1,
         "dp": 4, "entries": 10, "warmup": 3},
    ),
    Sample(
        "nanotron-15-steps", "an introduction to nanotron, tiny Llama on one GPU, August 2024",
        "".join(
            "08/31/2024 14:37:31 [INFO|DP=0|PP=0|TP=0]:  Memory usage: 64.26MiB. Peak allocated 64.26MiB. "
            "Peak reserved: 496.00MiB\n"
            f"08/31/2024 14:37:31 [INFO|DP=0|PP=0|TP=0]: iteration: {at} / 15 | consumed_tokens: {tokens} | "
            f"elapsed_time_per_iteration_ms: {ms} | tokens_per_sec: {rate} | tokens_per_sec_per_gpu: "
            f"{rate} | global_batch_size: 2 | lm_loss: 5.32 | lr: 0.00015 | model_tflops_per_gpu: "
            "1.87e-05 | hardware_tflops_per_gpu: 1.87e-05 | grad_norm: 2.96\n"
            for at, tokens, ms, rate in (
                (1, "512", "4.71K", "109"), (2, "1.02K", "11.8", "43.2K"), (3, "1.54K", "10", "51.2K"),
                (4, "2.05K", "10.2", "50.2K"), (5, "2.56K", "9.15", "55.9K"),
                (6, "3.07K", "9.09", "56.3K"), (7, "3.58K", "8.93", "57.3K"),
                (8, "4.1K", "8.95", "57.2K"), (9, "4.61K", "8.73", "58.7K"), (10, "5.12K", "673", "761"),
                (11, "5.63K", "11.1", "46.3K"), (12, "6.14K", "9.3", "55K"),
                (13, "6.66K", "9.04", "56.6K"), (14, "7.17K", "9.02", "56.8K"),
                (15, "7.68K", "9.41", "54.4K"))
        ),
        {"iterations": 15, "global_batch": 2, "world_size": 1, "median_step_s": 0.00915, "warmup": 2},
    ),
    Sample(
        "nemo-bar-on-a3", "GoogleCloudPlatform hpc-toolkit notes, Llama 2 7B, seven of 15 steps",
        "[NeMo I 2024-07-22 12:05:15 lr_scheduler:948] Scheduler will be used during training (effective "
        "maximum steps = 15) - \n    Parameters : \n    (warmup_steps: 500\n    max_steps: 15\n    )\n"
        + _bar("47%|████▋     | 7/15", "reduced_train_loss=11.50, global_step=5.000, consumed_samples="
               "12288.0, train_step_timing in s=49.50") + "\n",
        {"iterations": 6, "global_batch": 2048, "median_step_s": 49.5, "world_size": None},
    ),
    Sample(
        "nemo-grok", "NVIDIA dgxc-benchmarking, Grok 1 on 512 GPUs",
        _bar("100%|██████████| 50/50", "reduced_train_loss=0.186, global_step=49.00, consumed_samples="
             "51200.0, train_step_timing in s=24.00") + "\n",
        {"iterations": 50, "global_batch": 1024, "median_step_s": 24.0, "world_size": None},
    ),
    Sample(
        "nemo-stopped-early", "notes on prompt tuning with NeMo 1 on four GPUs, June 2024",
        "\r".join(
            _bar("60%|██████    | 6024/10000", f"v_num=0, reduced_train_loss=0.0252, global_step={at}, "
                 f"consumed_samples={samples}, train_step_timing in s={s}, val_loss=0.0917")
            for at, samples, s in (("6021.0", "96352.0", "2.580"), ("6022.0", "96368.0", "2.590"),
                                   ("6023.0", "96384.0", "2.590"))
        )
        + "[rank: 1] Monitored metric val_loss did not improve in the last 5 records. Best score: 0.074.\n"
        "[rank: 3] Monitored metric val_loss did not improve in the last 5 records. Best score: 0.074.\n"
        "Epoch 0, global step 6024: 'validation_loss' was not in top 1\n",
        {"iterations": 6024, "global_batch": 16, "median_step_s": 2.59, "world_size": None},
    ),
    Sample(
        "nemo-exponents", "notes on fine-tuning with NeMo 1, steps printed as 2e+3",
        _bar("100%|██████████| 2000/2000", "reduced_train_loss=0.139, global_step=2e+3, consumed_samples="
             "2.56e+5, train_step_timing in s=68.70, val_loss=0.212") + "\n",
        {"iterations": 2000, "global_batch": 128, "median_step_s": 68.7, "world_size": None},
    ),
    Sample(
        "nemo-cloud-watch", "a test of a log monitor, fine-tuning on SageMaker HyperPod",
        "[my-full-rank-sft-1] [2025-12-17 04:54:49,774] [INFO] Epoch 1: : 1it [00:04,  4.36s/it, v_num=d3c7"
        ", reduced_train_loss=0.674, global_step=1.000, consumed_samples=128.0, train_step_timing in s="
        "3.370, batch_time=4.400, samples/sec=14.60]     2025-12-17 04:54:49,774 [INFO] - nlp_overrides.py"
        ":552 - Time elapsed dumping optimizer_states with gather_on_root=True: 0.22 seconds\n",
        {"iterations": 2, "global_batch": 64, "median_step_s": 3.37, "world_size": None},
    ),
    Sample(
        "nemo-automodel-tps", "github.com/NVIDIA-NeMo/Speech/issues/13903",
        "olmo2_cpt/0 [default0]:Epoch 0:   0%|          | 33/2383206 [01:00<1217:48:45,  0.54it/s, "
        "v_num=mu23, global_step=0.000, train_step_timing in s=2.200, reduced_train_loss=2.390, tps=8967.0, "
        "lr=1e-6]\n",
        {"iterations": 1, "median_step_s": 2.2, "world_size": None, "global_batch": None,
         "tokens_per_s": None},
    ),
    Sample(
        "maxtext-v3-8", "github.com/AI-Hypercomputer/maxtext/issues/8",
        "completed step: 15107, seconds: 2.167, TFLOP/s: 36.722, loss: 2.191\n"
        "completed step: 15108, seconds: 2.164, TFLOP/s: 36.771, loss: 2.173\n"
        "completed step: 15109, seconds: 2.166, TFLOP/s: 36.739, loss: 2.191\n",
        {"iterations": 15110, "median_step_s": 2.166, "world_size": None, "tokens_per_s": None},
    ),
    Sample(
        "maxtext-nan-loss", "a run on GPUs whose loss is nan, March 2026",
        "".join(
            "W0317 10:00:16.726686 125344476638336 x2num.py:13] NaN or Inf found in input tensor.\n"
            f"I0317 10:00:17.152287 125344476638336 metric_logger.py:181] completed step: {at}, seconds: {s}"
            f", TFLOP/s/device: 233.790, Tokens/s/device: {t}, total_weights: {w}, loss: nan\n"
            for at, s, t, w in ((9, 0.440, 9317.922, 29579), (10, 0.435, 9423.869, 30708),
                                (11, 0.426, 9606.004, 29800))
        ),
        {"iterations": 12, "median_step_s": 0.435, "world_size": None, "tokens_per_s": None},
    ),
    Sample(
        "maxtext-march-2024", "a log of March 2024 in comments of a script, 22 steps",
        "".join(
            f"# completed step: {at}, seconds: {s:.3f}, TFLOP/s/device: 119.678, loss: 871.627\n"
            for at, s in enumerate((27.762, 5.524, 1.147, 0.771, 0.770, 0.770, 1.044, 1.589, 1.303, 1.305,
                                    1.002, 1.204, 1.404, 1.203, 1.202, 1.104, 1.103, 1.302, 1.104, 1.305,
                                    1.204, 1.303))
        ),
        {"iterations": 22, "median_step_s": 1.203, "warmup": 2, "world_size": None,
         "tokens_per_s": None},
    ),
    Sample(
        "maxtext-from-step-1", "a test of a simulator, MaxText on GPUs with 16,384 tokens a device",
        "".join(
            f"completed step: {at}, seconds: {s}, TFLOP/s/device: 486.111, Tokens/s/device: {t}, loss: "
            "557.604\n"
            for at, s, t in ((1, 2.828, 5794.467), (2, 12.768, 1283.208), (3, 9.163, 1787.989),
                             (4, 9.128, 1795.015), (5, 9.141, 1792.397), (6, 9.105, 1799.389),
                             (7, 9.088, 1802.724), (8, 9.076, 1805.195), (9, 9.118, 1796.825),
                             (10, 9.089, 1802.523), (11, 9.100, 1800.442))
        ),
        {"iterations": 12, "median_step_s": 9.105, "warmup": 2, "world_size": None,
         "tokens_per_s": None},
    ),
    Sample(
        "maxtext-elastic", "a demonstration of elastic training on TPU, README",
        "Elastic utils: Elastic training enabled.\n"
        "completed step: 8, seconds: 0.159, TFLOP/s/device: 43.430, loss: 220.774\n"
        "completed step: 9, seconds: 0.166, TFLOP/s/device: 41.524, loss: 217.296\n"
        "completed step: 10, seconds: 0.160, TFLOP/s/device: 43.230, loss: 216.126\n",
        {"iterations": 11, "median_step_s": 0.160, "world_size": None, "tokens_per_s": None},
    ),
    Sample(
        "maxtext-v6e-256", "AI-Hypercomputer/tpu-recipes, Mixtral 8x7B on 256 v6e chips",
        "completed step: 10, seconds: 13.360, TFLOP/s/device: 305.127, Tokens/s/device: 3679.158, "
        "total_weights: 12582912, loss: 10.565\n",
        {"iterations": 11, "median_step_s": 13.36, "world_size": 256, "tokens_per_s": 941835},
    ),
    Sample(
        "maxtext-fork-with-gradient", "README of a fork of MaxText on 768 devices",
        "completed step: 5, seconds: 20.585, TFLOP/s/device: 97.566, Tokens/s/device: 1989.820, "
        "total_weights: 31457280, loss: 12.409, lr: 3.000e-04, grad_norm: 1.234e+01\n",
        {"iterations": 6, "median_step_s": 20.585, "world_size": 768, "tokens_per_s": 1528166},
    ),
    Sample(
        "deepspeed-wrapped", "a course on DeepSpeed with its output broken in several lines",
        "[2023-09-15 00:09:45,317] [INFO] [timer.py:260:stop]\nepoch=0/micro_step=2000/global_step=2000,\n"
        "RunningAvgSamplesPerSec=502.1679292031866,\nCurrSamplesPerSec=519.4063914924576,\n"
        "MemAllocated=0.14GB,\nMaxMemAllocated=0.23GB\n",
        {"iterations": 2000, "median_step_s": None, "global_batch": None, "world_size": None},
    ),
    Sample(
        "deepspeed-hf-split-word", "notes on fine-tuning with the HF Trainer and ZeRO-2, December 2023",
        "".join(
            "{'loss': 2.075, 'learning_rate': 0.0002329900014453396, 'epoch': 0.04}\n"
            f"[2023-12-29 13:02:49,647] [INFO] [logging.py:96:log_dist] [Rank 0] step={at}, skipped=0, "
            "lr=[0.0003333333333333334], mom=[(0.9, 0.999)]\n"
            f"[2023-12-29 13:02:49,654] [INFO] [timer.py:260:stop] epoch=0/micro_step={at}/global_step={at}"
            f", RunningAvgSamplesPerSec=110.86936118523683, CurrSamplesPerSec={rate}, MemA          "
            "llocated=1.87GB, MaxMemAllocated=6.12GB\n"
            for at, rate in ((10, 111.33670009091573), (20, 111.13499047776766),
                             (30, 110.59852763526753), (40, 109.53330286609649))
        ),
        {"iterations": 40, "skipped": 0, "median_step_s": None, "global_batch": None,
         "world_size": None, "mean_step_s": None},
    ),
    Sample(
        "deepspeed-pod-labels", "a guide to DeepSpeed-Chat on Kubernetes, June 2023",
        "".join(
            f"actor-multi-node-worker-0: [2023-06-21 03:46:19,251] [INFO] [logging.py:96:log_dist] [Rank 0]"
            f" step={at}, skipped=19, lr=[9.275816201087529e-08], mom=[(0.9, 0.95)]\n"
            f"actor-multi-node-worker-0: [2023-06-21 03:46:19,254] [INFO] [timer.py:199:stop] epoch=1/"
            f"micro_step={at - 954}/global_step={at}, RunningAvgSamplesPerSec=6.60372389313781, "
            f"CurrSamplesPerSec={rate}, MemAllocated=7.79GB, MaxMemAllocated=10.55GB\n"
            for at, rate in ((1880, 6.368302303901175), (1890, 6.809163050305052), (1900, 6.81975492))
        ),
        {"iterations": 1900, "skipped": 19, "median_step_s": None, "global_batch": None,
         "world_size": None},
    ),
    Sample(
        "deepspeed-two-ranks-mixed", "a log of DeepSpeed in fp16, two ranks on one screen",
        "[2023-10-31 08:58:32,525] [INFO] [unfused_optimizer.py:290:_update_scale] Increasing dynamic loss "
        "scale from 4096.0 to 8192.0\n" * 2
        + "[2023-10-31 08:58:33,237] [INFO] [logging.py:96:log_dist] [Rank 0] step=14000, skipped=25, lr="
        "[0.001], mom=[0.9]\n[2023-10-31 08:58:33,237] [INFO] [timer.py:260:stop] epoch=0/micro_step=14000/"
        "global_step=14000, RunningAvgSamplesPerSec=1412.7627800125174, CurrSamplesPerSec="
        "1322.8113222423717, MemAllocated=0.0GB, MaxMemAllocated=0.0GB\n"
        + "[2023-10-31 08:58:34,113] [INFO] [unfused_optimizer.py:281:_update_scale] Grad overflow on "
        "iteration: 14075\n" * 2,
        {"iterations": 14000, "skipped": 25, "median_step_s": None, "global_batch": None,
         "world_size": None},
    ),
    Sample(
        "deepspeed-gpt-neox-start", "github.com/EleutherAI/gpt-neox/issues/965",
        "[2023-06-04 13:27:37,154] [INFO] [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | "
        "optimizer_allgather: 1731.46 | optimizer_gradients: 0.36 | optimizer_step: 1.16\n"
        "[2023-06-04 13:27:37,154] [INFO] [logging.py:96:log_dist] [Rank 0] step=1, skipped=0, lr="
        "[7.985307035055498e-07], mom=[[0.9, 0.95]]\n"
        "[2023-06-04 13:27:37,155] [INFO] [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | "
        "forward_microstep: 5073.60 | backward_microstep: 10995.77 | backward_inner_microstep: 9674.67 | "
        "backward_allreduce_microstep: 1321.02 | step_microstep: 1819.17\n"
        "[2023-06-04 13:27:37,155] [INFO] [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | forward: "
        "5073.58 | backward: 10995.77 | backward_inner: 9674.66 | backward_allreduce: 1321.04 | step: "
        "1819.18\n",
        {"iterations": 1, "median_step_s": 17.88853, "global_batch": None, "world_size": None},
    ),
    Sample(
        "hf-compose-bar", "a log of a Compose service that fine-tunes BERT on Azure",
        "training-nlp-azure-1  | {'eval_loss': 0.60855633020401, 'eval_accuracy': 0.857, 'eval_runtime': "
        "46.8883, 'eval_samples_per_second': 36.79, 'eval_steps_per_second': 2.303, 'epoch': 3.0}\n"
        "training-nlp-azure-1  | \ntraining-nlp-azure-1  | 100%|██████████| 690/690 [31:31<00:00,  2.27s/it]"
        "\ntraining-nlp-azure-1  | 100%|██████████| 108/108 [00:46<00:00,  2.32it/s]\n"
        "training-nlp-azure-1  | {'train_runtime': 1891.9246, 'train_samples_per_second': 5.816, "
        "'train_steps_per_second': 0.365, 'train_loss': 0.31064462523529496, 'epoch': 3.0}\n"
        "training-nlp-azure-1  | 100%|██████████| 690/690 [31:31<00:00,  2.74s/it]\n"
        "training-nlp-azure-1  | Time for training: 1922.514419555664s\n",
        {"iterations": 690, "mean_step_s": 2.741920, "world_size": None, "median_step_s": None,
         "tokens_per_s": None},
    ),
    Sample(
        "hf-jupyter-output", "a blog on sentence embeddings, what a notebook shows",
        "TrainOutput(global_step=1563, training_loss=0.8133826545622588, metrics={'train_runtime': 102.5122"
        ", 'train_samples_per_second': 487.747, 'train_steps_per_second': 15.247, 'total_flos': 0.0, "
        "'train_loss': 0.8133826545622588, 'epoch': 1.0})\n",
        {"iterations": 1563, "mean_step_s": 0.0655868, "world_size": None, "median_step_s": None},
    ),
    Sample(
        "hf-output-twice", "a notebook in French, the summary and then TrainOutput",
        "    {'train_runtime': 20297.6998, 'train_samples_per_second': 0.552, 'train_steps_per_second': "
        "0.034, 'train_loss': 0.181169177887163, 'epoch': 58.33}\n"
        "    TrainOutput(global_step=700, training_loss=0.181169177887163, metrics={'train_runtime': "
        "20297.6998, 'train_samples_per_second': 0.552, 'train_steps_per_second': 0.034, 'total_flos': "
        "6.8128939966464e+17, 'train_loss': 0.181169177887163, 'epoch': 58.333333333333336})\n",
        {"iterations": 700, "mean_step_s": 28.99671, "world_size": None, "median_step_s": None},
    ),
    Sample(
        "hf-eval-after-training", "README of a classifier, 30 steps and then an evaluation",
        "{'eval_loss': 0.0932, 'eval_runtime': 3.277, 'eval_samples_per_second': 6.103, "
        "'eval_steps_per_second': 0.915, 'epoch': 1.0}\n"
        "{'train_runtime': 204.0818, 'train_samples_per_second': 1.176, 'train_steps_per_second': 0.147, "
        "'train_loss': 0.12877427736918132, 'epoch': 3.0}\n"
        "100%|██████████████████████████████| 30/30 [03:24<00:00,  6.80s/it]\n"
        "100%|██████████████████████████████| 3/3 [00:01<00:00,  1.55it/s]\n"
        "{'eval_loss': 0.0239, 'eval_runtime': 3.2466, 'eval_samples_per_second': 6.16, "
        "'eval_steps_per_second': 0.924, 'epoch': 3.0}\n",
        {"iterations": 30, "mean_step_s": 6.80273, "world_size": None, "median_step_s": None},
    ),
    Sample(
        "hf-one-step", "notes on DeBERTa, one step, the bar and the summary in one line",
        "{'loss': 2.7838, 'grad_norm': 27.501415252685547, 'learning_rate': 0.0, 'epoch': 1.0}\n"
        "100%|████████████████████| 1/1 [00:04<00:00,  2.99s/it^{'train_runtime': 11.2399, "
        "'train_samples_per_second': 0.445, 'train_steps_per_second': 0.089, 'train_loss': "
        "2.7838191986083984, 'epoch': 1.0}\n"
        "100%|████████████████████| 1/1 [00:11<00:00, 11.26s/it]\n",
        {"iterations": 1, "mean_step_s": 11.2399, "world_size": None, "median_step_s": None},
    ),
    Sample(
        "hf-unfinished-bar", "README of a summariser, the last bar that was kept is at 567 of 620",
        "    91%|██████████████████           | 567/620 [08:21<00:35,  1.49it/s\n"
        "    {'loss': 0.0024, 'grad_norm': 0.11772531270980835, 'learning_rate': 1.774193548387097e-06, "
        "'epoch': 18.1}\n    ...\n"
        "    {'train_runtime': 557.5485, 'train_samples_per_second': 9.04, 'train_steps_per_second': 1.112, "
        "'train_loss': 1.0421068376981684, 'epoch': 19.68}\n",
        {"iterations": 620, "mean_step_s": 0.899272, "world_size": None, "median_step_s": None},
    ),
    Sample(
        "hf-5-figures-as-texts", "a fine-tuning on 8 MI300, transformers 5 prints its figures as texts",
        "{'loss': '83.94', 'grad_norm': '2726', 'learning_rate': '0', 'epoch': '0.5'}\n"
        "{'loss': '2.782e-05', 'grad_norm': '0.006154', 'learning_rate': '4.161e-09', 'epoch': '40'}\n"
        "{'train_runtime': '101.6', 'train_samples_per_second': '3.544', 'train_steps_per_second': '0.788', "
        "'train_loss': '6.252', 'epoch': '40'}\n80/80 [01:41<00:00,  1.27s/it]\n",
        {"iterations": 80, "mean_step_s": 1.27, "world_size": None, "median_step_s": None,
         "tokens_per_s": None},
    ),
    Sample(
        "hf-rate-without-time", "comments of a script: the rate of the steps, rounded, and minutes",
        "# {'loss': 1.6427, 'grad_norm': 3.3125, 'learning_rate': 1.0344827586206898e-06, 'epoch': 0.0}\n"
        "# {'train_steps_per_second': 0.15, 'train_loss': 1.5611213878612613, 'epoch': 3.0}\n"
        "# 312.04 minutes used for training.\n",
        {"iterations": None, "mean_step_s": None, "run_s": None, "world_size": None},
    ),
)  # fmt: skip

_FOAM = (
    "Build  : _1d8f0d55f7-20231221 OPENFOAM=2312 version=v2312\nExec   : simpleFoam -parallel "
    "-decomposeParDict system/decomposeParDict.6\nDate   : May 26 2024\nTime   : 16:10:47\n"
    "Host   : aion-0180\nnProcs : 6\nHosts  :\n(\n    (aion-0180 6)\n)\n"
)
_FOAM_4 = (
    "Build  : 4.0-665f1db4c1f1\nExec   : simpleFoam -parallel\nDate   : Feb 17 2017\nTime   : 15:47:27\n"
    'nProcs : 4\nSlaves : \n3\n(\n"radunz-Aspire-E5-571.29557"\n)\n'
)

HPC = (
    Sample(
        "lammps-2023-one-rank", "MCawood/benchpro, log.lammps of 2 Aug 2023",
        "LAMMPS (2 Aug 2023 - Update 2)\n  1 by 1 by 1 MPI processor grid\n"
        "Loop time of 0.414116 on 1 procs for 100 steps with 16000 atoms\n\n"
        "Performance: 104318.712 tau/day, 241.479 timesteps/s, 3.864 Matom-step/s\n"
        "99.7% CPU use with 1 MPI tasks x no OpenMP threads\n\nMPI task timing breakdown:\n"
        "Section |  min time  |  avg time  |  max time  |%varavg| %total\n"
        "---------------------------------------------------------------\n"
        "Pair    | 0.33396    | 0.33396    | 0.33396    |   0.0 | 80.65\n"
        "Neigh   | 0.068588   | 0.068588   | 0.068588   |   0.0 | 16.56\n"
        "Comm    | 0.0042228  | 0.0042228  | 0.0042228  |   0.0 |  1.02\n"
        "Output  | 2.9375e-05 | 2.9375e-05 | 2.9375e-05 |   0.0 |  0.01\n"
        "Modify  | 0.0067434  | 0.0067434  | 0.0067434  |   0.0 |  1.63\n"
        "Other   |            | 0.0005683  |            |       |  0.14\n\nTotal wall time: 0:00:00\n",
        {"world_size": 1, "run_s": 0.414116, "iterations": 100, "mean_step_s": 0.00414116},
    ),
    Sample(
        "lammps-2025-192-ranks", "HPC-Stack/knit-case-study, log.lammps of 22 Jul 2025",
        "LAMMPS (22 Jul 2025 - Update 3)\n  using 1 OpenMP thread(s) per MPI task\n"
        "  8 by 4 by 6 MPI processor grid\n"
        "Loop time of 19.4789 on 192 procs for 100000 steps with 32000 atoms\n\n"
        "Performance: 2217788.721 tau/day, 5133.770 timesteps/s, 164.281 Matom-step/s\n"
        "99.4% CPU use with 192 MPI tasks x 1 OpenMP threads\n\nMPI task timing breakdown:\n"
        "Section |  min time  |  avg time  |  max time  |%varavg| %total\n"
        "---------------------------------------------------------------\n"
        "Pair    | 7.4026     | 7.9201     | 8.4984     |   8.1 | 40.66\n"
        "Neigh   | 1.5392     | 1.616      | 1.752      |   3.0 |  8.30\n"
        "Comm    | 9.0772     | 9.7028     | 10.315     |   8.1 | 49.81\n"
        "Output  | 0.00091094 | 0.00093105 | 0.0010414  |   0.0 |  0.00\n"
        "Modify  | 0.14241    | 0.17064    | 0.20711    |   3.2 |  0.88\n"
        "Other   |            | 0.06832    |            |       |  0.35\n\nTotal wall time: 0:00:19\n",
        {"world_size": 192, "run_s": 19.4789, "iterations": 100000, "mean_step_s": 0.000194789},
    ),
    Sample(
        "lammps-warm-up-run", "a benchmark of a potential: a run of 50 steps, then one of 200",
        "LAMMPS (22 Jul 2025 - Update 6)\n  1 by 1 by 1 MPI processor grid\n"
        "# Warm-up is excluded from the timing: it absorbs the first neighbour build,\nrun             50\n"
        "Loop time of 6.96782 on 1 procs for 50 steps with 10240 atoms\n\n"
        "92.2% CPU use with 1 MPI tasks x 1 OpenMP threads\n\n"
        "Pair    | 6.9297     | 6.9297     | 6.9297     |   0.0 | 99.45\n\nreset_timestep  0\nrun             200\n"
        "Loop time of 9.71449 on 1 procs for 200 steps with 10240 atoms\n\n"
        "Performance: 3.558 ns/day, 6.746 hours/ns, 20.588 timesteps/s, 210.819 katom-step/s\n"
        "99.4% CPU use with 1 MPI tasks x 1 OpenMP threads\n\n"
        "Pair    | 9.5311     | 9.5311     | 9.5311     |   0.0 | 98.11\nTotal wall time: 0:00:18\n",
        {"world_size": 1, "run_s": 9.71449, "iterations": 200, "mean_step_s": 0.04857245},
    ),
    Sample(
        "gromacs-48-ranks", "CRW405/REU-HPC-Research, md.log of 2026: 32 ranks and 16 for PME",
        "Overriding nsteps with value passed on the command line: 500000 steps, 1e+03 ps\n"
        "Initializing Domain Decomposition on 48 ranks\nWill use 32 particle-particle and 16 PME only ranks\n"
        "Domain decomposition grid 8 x 1 x 4, separate PME ranks 16\nUsing 48 MPI processes\n"
        "Using 1 OpenMP thread per MPI process\nThere are: 81743 Atoms\n"
        "Started mdrun on rank 0 Fri Jul 10 12:41:28 2026\n           Step           Time\n"
        "              0        0.00000\n           Step           Time\n         500000     1000.00000\n\n"
        "\tStatistics over 500001 steps using 5001 frames\n\n"
        "      R E A L   C Y C L E   A N D   T I M E   A C C O U N T I N G\n\n"
        "On 32 MPI ranks doing PP, and\non 16 MPI ranks doing PME\n\n"
        " Activity:              Num   Num      Call    Wall time         Giga-Cycles\n"
        "                        Ranks Threads  Count      (s)         total sum    %\n"
        "--------------------------------------------------------------------------------\n"
        " Domain decomp.           32    1       6251      17.020       1141.051   0.9\n"
        " Send X to PME            32    1     500001       3.252        217.988   0.2\n"
        " Neighbor search          32    1       6251      26.383       1768.796   1.4\n"
        " Comm. coord.             32    1     493750      32.068       2149.883   1.7\n"
        " Force                    32    1     500001     877.571      58834.191  45.7\n"
        " Wait + Comm. F           32    1     500001      84.525       5666.703   4.4\n"
        " PME mesh *               16    1     500001     777.999      26079.327  20.3\n"
        " PME wait for PP *                               502.311      16837.988  13.1\n"
        " Wait + Recv. PME F       32    1     500001      11.472        769.118   0.6\n"
        " Constraints              32    1     500003     189.761      12721.971   9.9\n"
        " Rest                                              3.286        220.290   0.2\n"
        "--------------------------------------------------------------------------------\n"
        " Total                                          1280.316     128752.579 100.0\n"
        "--------------------------------------------------------------------------------\n\n"
        "               Core t (s)   Wall t (s)        (%)\n       Time:    61455.034     1280.316     4800.0\n"
        "                 (ns/day)    (hour/ns)\nPerformance:       67.483        0.356\n"
        "Finished mdrun on rank 0 Fri Jul 10 13:02:48 2026\n",
        {"world_size": 48, "run_s": 1280.316, "iterations": 500000, "mean_step_s": 0.002560632},
    ),
    Sample(
        "gromacs-sunway-end", "LyricZhao/SW-Gromacs, the end of md.log on Sunway",
        "           Step           Time         Lambda\n          10000       25.00000        0.00000\n\n"
        "Writing checkpoint, step 10000 at Mon Sep 10 15:53:05 2018\n\n"
        "\tStatistics over 10001 steps using 1001 frames\n\n"
        "               Core t (s)   Wall t (s)        (%)\n       Time:   182805.020      374.786    48775.9\n"
        "                 (ns/day)    (hour/ns)\nPerformance:        5.764        4.164\n"
        "Finished mdrun on rank 0 Mon Sep 10 15:53:08 2018\n",
        {"world_size": None, "run_s": 374.786, "iterations": 10000, "mean_step_s": 0.0374786},
    ),
    Sample(
        "gromacs-4.5-no-input", "t-/adaptive, md.log of 2011: the input is missing",
        "Log file opened on Mon Jul 11 13:12:47 2011\nHost: tgraen  pid: 628  nodeid: 0  nnodes:  1\n"
        "                         :-)  G  R  O  M  A  C  S  (-:\n"
        "                 :-)  VERSION 4.5.1-20100917-c31d527-dirty  (-:\n"
        "-------------------------------------------------------\n"
        "Program mdrun, VERSION 4.5.1-20100917-c31d527-dirty\nSource code file: gmxfio.c, line: 524\n\n"
        "Can not open file:\ntopol.tpr\n",
        {"run_s": None, "iterations": None, "mean_step_s": None},
    ),
    Sample(
        "gromacs-labbook", "a lab book of 2015, GROMACS on about ten cores",
        "               Core t (s)   Wall t (s)        (%)\n       Time:   329876.580    33009.459      999.3\n"
        "                         9h10:09\n                 (ns/day)    (hour/ns)\n"
        "Performance:       13.087        1.834\nFinished mdrun on node 0 Fri Jan 30 01:16:25 2015\n",
        {"world_size": None, "run_s": 33009.459, "iterations": None, "mean_step_s": None},
    ),
    Sample(
        "gromacs-seven-days", "a test of a job monitor, GROMACS of 2015 stopped after seven days",
        "               Core t (s)   Wall t (s)        (%)\n       Time: 12101659.800   604814.352     2000.9\n"
        "                         7d00h00:14\n                 (ns/day)    (hour/ns)\n"
        "Performance:        4.028        5.959\nFinished mdrun on node 0 Thu Oct 29 18:46:54 2015\n",
        {"world_size": None, "run_s": 604814.352, "iterations": None, "mean_step_s": None},
    ),
    Sample(
        "gromacs-traverse-screen", "notes on Traverse, the screen of gmx mdrun under srun",
        "traverse-k01g2\nWed Dec 11 23:17:01 EST 2019\npid 31313's current affinity list: 0-63\n"
        "Overriding thread affinity set outside gmx mdrun\nstarting mdrun 'RNASE ZF-1A in water'\n"
        "10000 steps,     20.0 ps.\n\nWriting final coordinates.\n\n"
        "               Core t (s)   Wall t (s)        (%)\n       Time:       61.892        3.870     1599.4\n"
        "                 (ns/day)    (hour/ns)\nPerformance:      446.590        0.054\n",
        {"world_size": None, "run_s": 3.870, "iterations": 10000, "mean_step_s": 0.000387},
    ),
    Sample(
        "openfoam-2312-motorbike", "parsavares/HPCSE_End_Project, log.simpleFoam on six ranks",
        _FOAM + "".join(
            f"Time = {at}\n\nExecutionTime = {round(0.38 + 18.27 * at / 500, 2)} s  ClockTime = "
            f"{round(18.99 * at / 500)} s\n\n" for at in range(1, 501))
        + "streamLine streamLines write:\n    seeded 20 particles\nEnd\n\nFinalising parallel run\n",
        {"world_size": 6, "iterations": 500, "run_s": 18.65, "mean_step_s": 0.0373},
    ),
    Sample(
        "openfoam-4-converged", "wradunz/complexTerrain, log.simpleFoam on four ranks",
        _FOAM_4 + "".join(
            f"Time = {at}\n\nExecutionTime = {round(0.2 + 104.93 * at / 197, 2)} s  ClockTime = "
            f"{round(118 * at / 197)} s\n\n" for at in range(1, 198))
        + "\nSIMPLE solution converged in 197 iterations\n\nEnd\n\nFinalising parallel run\n",
        {"world_size": 4, "iterations": 197, "run_s": 118.0, "mean_step_s": 0.598985},
    ),
    Sample(
        "openfoam-org-seconds", "brian-cif/openfoambaja, the end of a log whose times have a unit",
        "Time = 999s\n\nExecutionTime = 833.04 s  ClockTime = 833 s\n\nTime = 1000s\n\n"
        "GAMG:  Solving for p, Initial residual = 0.00823085, Final residual = 0.000814591, No Iterations 2\n"
        "ExecutionTime = 834.307 s  ClockTime = 834 s\n\nforceCoeffs forces write:\n    Cm    = -0.327447\n\n"
        "End\n\nFinalising parallel run\n",
        {"world_size": None, "iterations": None, "run_s": 834.0},
    ),
    Sample(
        "espresso-7.2-five-nodes", "ckrrio/EPW-ERROR, scf.out of 24 processes",
        "MPI startup(): Warning: I_MPI_PMI_LIBRARY will be ignored since the hydra process manager was found\n"
        "\n     Program PWSCF v.7.2 starts on  6Dec2024 at 16:56:58 \n"
        "     Parallel version (MPI & OpenMP), running on      24 processor cores\n"
        "     Number of MPI processes:                24\n     Threads/MPI process:                     1\n\n"
        "     MPI processes distributed on     5 nodes\n     number of atoms/cell      =           16\n"
        "     number of Kohn-Sham states=           97\n     kinetic-energy cutoff     =      36.0000  Ry\n"
        "     number of k points=   163  Marzari-Vanderbilt smearing, width (Ry)=  0.0500\n"
        "     convergence has been achieved in  14 iterations\n\n"
        "     PWSCF        :   7m 6.26s CPU   7m18.39s WALL\n\n \n"
        "   This run was terminated on:  17: 4:17   6Dec2024            \n\n   JOB DONE.\n",
        {"world_size": 24, "nodes": 5, "run_s": 438.39, "iterations": 14},
    ),
    Sample(
        "espresso-2012-hours", "afonari/modulation, the end of scf.out of 2012",
        "     General routines\n     calbec       :     48.43s CPU     50.12s WALL (    5925 calls)\n\n"
        "     PWSCF        :     2h 0m CPU        2h13m WALL\n\n \n"
        "   This run was terminated on:   8:34: 3  17Oct2012            \n\n   JOB DONE.\n",
        {"world_size": None, "run_s": 7980.0, "nodes": None},
    ),
    Sample(
        "espresso-phonon", "notes on phonons of aluminium, the end of ph.x",
        "     h_psi:calbec :      5.55s CPU      6.68s WALL (  859163 calls)\n"
        "     s_psi_bgrp   :      1.70s CPU      2.04s WALL ( 1409957 calls)\n \n \n"
        "     PHONON       :   2m40.10s CPU   3m11.61s WALL\n\n \n"
        "   This run was terminated on:  21:38:17  22Sep2026            \n\n   JOB DONE.\n",
        {"world_size": None, "run_s": 191.61, "nodes": None},
    ),
    Sample(
        "espresso-epsilon", "notes of 2022 on epsilon.x of Quantum ESPRESSO 5.2",
        "     Program epsilon v.5.2.0 starts on 23Jun2022 at 18:48:14 \n\n"
        "     This program is part of the open-source Quantum ESPRESSO suite\n\n     Serial version\n\n"
        "     epsilon      :     1.23s CPU         1.26s WALL\n\n"
        "     calculation  :      0.38s CPU      0.38s WALL (       1 calls)\n"
        "     dipole_calc  :      0.28s CPU      0.28s WALL (      70 calls)\n\n\n"
        "stop_clock: clock #  1 for      epsilon not running\n"
        "     epsilon      :     1.23s CPU         1.26s WALL\n\n\n"
        "   This run was terminated on:  18:48:15  23Jun2022            \n\n   JOB DONE.\n",
        {"world_size": 1, "run_s": 1.26},
    ),
    Sample(
        "hpcg-3.0-intel", "ubccr, report of HPCG 3.0 of Intel MKL on eight ranks",
        "HPCG result is VALID with a GFLOP/s rating of 3.289080\n"
        "====== n104-8p-1t-V3.0_2019.03.29.09.40.35.yaml Start ======\nn104-8p-1t version: V3.0\n"
        "Release date: November 11, 2015\nMachine Summary: \n  Distributed Processes: 8\n"
        "  Threads per processes: 1\nGlobal Problem Dimensions: \n  Global nx: 208\n  Global ny: 208\n"
        "  Global nz: 208\nLocal Domain Dimensions: \n  nx: 104\n"
        "########## Memory Use Summary  ##########: \nMemory Use Information: \n"
        "  Total memory used for data (Gbytes): 6.43715\n"
        "########## Iterations Summary  ##########: \nIteration Count Information: \n  Result: PASSED\n"
        "  Reference CG iterations per set: 50\n  Optimized CG iterations per set: 50\n"
        "  Total number of reference iterations: 50\n  Total number of optimized iterations: 50\n"
        "########## Performance Summary (times in sec) ##########: \nBenchmark Time Summary: \n"
        "  Optimization phase: 2.45575\n  DDOT: 0.146045\n  WAXPBY: 0.157862\n  SpMV: 6.83073\n"
        "  MG: 33.8221\n  ALL_reduce: 9.3723\n  Total: 50.3291\nFloating Point Operations Summary: \n"
        "  Raw DDOT: 2.71767e+09\n  Total: 1.67111e+11\nGFLOP/s Summary: \n  Raw Total: 3.32037\n"
        "__________ Final Summary __________: \n  HPCG result is VALID with a GFLOP/s rating of: 3.28908\n"
        "  Results are valid but execution time (sec) is: 50.3291\n",
        {"world_size": 8, "run_s": 50.3291, "iterations": 50, "mean_step_s": 1.006582},
    ),
    Sample(
        "seff-no-nodes-line", "a talk on Gaussian at the Digital Research Alliance, seff without Nodes",
        "$ seff 26948781\nJob ID: 26948781\nCluster: graham\nUser/Group: stuekero/stuekero\n"
        "State: COMPLETED (exit code 0)\nCores per node: 16\n"
        "CPU Utilized: 13-06:23:40\nCPU Efficiency: 96.40% of 13-18:17:52 core-walltime\n"
        "Job Wall-clock time: 20:38:37\nMemory Utilized: 37.02 GB\n",
        {"nodes": None, "run_s": 74317.0, "world_size": None},
    ),
    Sample(
        "seff-group-with-space", "notes on job arrays, seff of one task",
        "Job ID: 8250376\nArray Job ID: 8250375_0\nCluster: nova\nUser/Group: satheesh/domain users\n"
        "State: COMPLETED (exit code 0)\nNodes: 1\nCores per node: 2\nCPU Utilized: 00:00:10\n"
        "CPU Efficiency: 50.00% of 00:00:20 core-walltime\nJob Wall-clock time: 00:00:10\n"
        "Memory Utilized: 302.76 MB\nMemory Efficiency: 14.78% of 2.00 GB (2.00 GB/node)\n",
        {"nodes": 1, "run_s": 10.0},
    ),
    Sample(
        "sacct-elapsed-raw", "a test of a job chain, one record with ElapsedRaw and AllocTRES",
        "JobIDRaw|JobName|Partition|State|ExitCode|ElapsedRaw|AllocCPUS|ReqMem|NodeList|Submit|Start|End|"
        "AllocTRES|QOS|TimelimitRaw\n"
        "424242|ued-minimax-terminal-chain|gpuq|COMPLETED|0:0|102|2|15G|gpu021|2026-08-14T00:00:00|"
        "2026-08-14T00:01:00|2026-08-14T00:02:42|billing=20,cpu=2,gres/gpu:1g.10gb=1,gres/gpu=1,mem=15G,"
        "node=1|gpu|30\n",
        {"nodes": 1, "run_s": 102.0},
        "sacct.txt",
    ),
    Sample(
        "sacct-no-nodes-pending", "a record of an inference, without any count of nodes",
        "JobID|JobName|State|ExitCode|Elapsed\n16493602|cg037_test|COMPLETED|0:0|00:00:29\n"
        "16493652|cg037_input|COMPLETED|0:0|00:01:32\n16493656|cg037_cache|PENDING|0:0|00:00:00\n",
        {"nodes": None, "run_s": None, "world_size": None},
        "sacct.txt",
    ),
)  # fmt: skip

SAMPLES = (*TRAINING, *HPC)
