"""llama.cpp's server: llamacpp.py MODEL.gguf PORT"""
import sys
import time

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"]
params.port = int(sys.argv[2])
params.n_parallel = 8
params.n_ctx = 8 * 4096
params.endpoint_metrics = True
params.warmup = False
params.cpuparams.n_threads = 1
server = xllamacpp.Server(params)
print("listening", server.listening_address, flush=True)
while True:
    time.sleep(3600)
