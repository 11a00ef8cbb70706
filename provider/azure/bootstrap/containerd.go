package bootstrap

import "strings"

// containerdConfig returns containerd's configuration: runc with systemd's control groups, or NVIDIA's runtime around it, which gives
// containers their GPUs. Newer versions of containerd can read version 2 too.
func containerdConfig(gpu bool) string {
	const cri = `plugins."io.containerd.grpc.v1.cri"`
	runtime, binary := "runc", "/usr/bin/runc"
	if gpu {
		runtime, binary = "nvidia-container-runtime", "/usr/bin/nvidia-container-runtime"
	}
	return strings.Join([]string{
		`version = 2`,
		`oom_score = -999`,
		`[` + cri + `]`,
		`  sandbox_image = "` + pauseImage + `"`,
		`  [` + cri + `.containerd]`,
		`    default_runtime_name = "` + runtime + `"`,
		`    [` + cri + `.containerd.runtimes.` + runtime + `]`,
		`      runtime_type = "io.containerd.runc.v2"`,
		`      [` + cri + `.containerd.runtimes.` + runtime + `.options]`,
		`        BinaryName = "` + binary + `"`,
		`        SystemdCgroup = true`,
		`  [` + cri + `.registry]`,
		`    config_path = "/etc/containerd/certs.d"`,
		`  [` + cri + `.registry.headers]`,
		`    X-Meta-Source-Client = ["azure/aks"]`,
		`[metrics]`,
		`  address = "0.0.0.0:10257"`,
		``,
	}, "\n")
}
