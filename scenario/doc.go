// Package scenario has a text notation for clusters and their expected plans. It reads and writes Kubernetes YAML for the
// same snapshots too. Tests, benchmarks, bug reports and documentation share the notation. The package makes no decisions:
// plans come from package engine.
//
// # A scenario
//
// A file consists of lines. A line that begins with # is a comment. An indented line continues the line before. Statements
// describe a cluster, and commands call the engine. The expected result stands below ---- up to the next empty line:
//
//	# Two small pods share one cheap node rather than getting a node each.
//	pool general
//	type small cpu=2 mem=4Gi  zones=a,b price=0.05
//	type large cpu=8 mem=16Gi zones=a,b price=0.17
//	pods web x2 cpu=800m mem=1Gi
//
//	provision
//	----
//	launch general-1 small zone=a,b 0.05/h: web-1 web-2
//
// Statements may follow a command; the next command sees them too. A statement can refer only to objects above it.
//
// # Words
//
// A word is key=value or a flag. Lists are a,b,c; maps are key:value,key:value. A value that consists of words is in
// parentheses: init=(cpu=1 mem=1Gi). A value with blanks is in quotes. Resources are cpu, mem, storage, pods, and every name
// with a slash, such as nvidia.com/gpu=1. Some labels have short names: zone, region, arch, os, type, capacity, pool and
// hostname. All other labels are written in full. A requirement is a label, an operator and values:
//
//	zone in (a,b)   zone notin (a)   team exists   team absent   gen > 4   gen >= 4   gen < 6   gen <= 6
//
// A taint is key=value:Effect or key:Effect. A toleration has the same form, but value and effect are optional: team
// tolerates every value and effect, * tolerates everything.
//
// # Statements
//
//	now 2026-01-31T12:00:00Z       sets the clock, which begins at 2026-01-01T12:00:00Z
//	wait 5m                        advances the clock
//	pool NAME                      a NodePool: class= weight= limits=cpu:10,nodes:3 labels= annotations= taint= startup-taint=
//	                               consolidate-after= (a duration or Never) consolidation= (the policy) budget=10%
//	                               budget=(nodes=0 reasons=Empty,Drifted schedule="0 9 * * *" duration=8h) expire-after= grace=
//	                               replicas= not-ready not-ready="why" deleting pause= pause-reason= retire drift=observe time-zone=
//	                               payback= price-patience= min-memory-for-pods= replace-budget= delete-budget= (as budget=) halted="why its machines do not join", and requirements, each with min=N for
//	                               minValues; omitted fields have the API server's defaults
//	class NAME                     a node class: problem="why it cannot be used" repair=(Ready False after=30m reason=Kernel grace=5m
//	                               priority=50) tended=n1,n2 trait=(imageID a,b types=two,four reason=ImageDrift); Kind/NAME for kinds other than KWOKNodeClass
//	type NAME                      an instance type of a class: resources (pods=110 by default), overhead=cpu:100m,
//	                               zones=a,b (a by default), price= and spot= for offerings on demand and spot in each of
//	                               them, offer=(zone=a capacity=spot price=0.02 labels=k:v taint=K:NoSchedule sold-out) for others,
//	                               offer=(zone=a reserved=NAME slots=3 price=0.01) for the rest of a reservation, sold-out,
//	                               sold-out=b,spot,a/spot, arch= os= (amd64 and linux by default), labels=family:c,gen:3|4
//	                               (several values: the machine may have any of them; none: it does not have the label), class=
//	                               attach=DRIVER:25 (the number of volumes of a machine) quota=NAME:4,NAME:4 spot-quota= (the units of the
//	                               cloud's quotas for one machine, on demand and spot; offer=(...) has a quota= of its own)
//	                               devices=(driver=gpu.example.com count=8 model=L4 memory=24Gi shares=4 root=each) for the devices that a
//	                               driver will publish, for claims: memory and shares are capacities, other words are attributes; the
//	                               value each means a different value on every device
//	quota NAME                     the rest of a quota of the cloud: left=6 limit=100 unit=vCPUs scope=REGION more="how to have more"
//	                               read=2m (read at this time before now: machines launched since then are subtracted) class=
//	catalog kwok|aws|azure         all types of a built-in catalog: class=
//	overlay NAME                   a NodeOverlay: price=0.05 or adjust=-10%, adjust=+0.02, interruptions=5% (share of spot machines in a month; or per hour, 0.01)
//	                               interruption-cost=2 (USD each), resources that it sets such as nvidia.com/gpu=4,
//	                               weight=, and requirements on types, offerings and labels of pools; without requirements, all of them
//	node-overhead-price 0.01       cost of every node besides its machine, in USD per hour
//	commitment NAME                machines on demand that are paid whether they run or not: machines=10 price=0.05 (reserved instances, USD per hour and
//	                               machine) or amount=12.5 discount=0.3 (a Savings Plan), elsewhere= (used by others) end=, and requirements
//	                               on types and offerings
//	node NAME                      a node. With pool= and type= it is Tenon's, registered and initialized, and has a NodeClaim
//	                               of the same name: zone= capacity= reserved= quiet=5m (since the last pod event) planned=web-1,web-2
//	                               launched=9m registered=8m ready=5m (times before now; 0 by default)
//	                               drifted drifted=1h unregistered uninitialized rebooting image= broken=(Ready False for=40m reason=Kernel) backoff=5m taken-back=1m,Drifted gone (only the claim is left) bare (a
//	                               kubelet has created the node again). Without pool= it belongs to no pool: cpu= mem=. Both: labels= annotations=
//	                               drivers=gpu.example.com (the drivers whose devices the claim requested) published=(driver=gpu.example.com count=4 model=L4
//	                               of=2) (a driver's published devices, with the words of a type's devices; the first of two slices; pool=b for another pool)
//	                               taint= allocatable=nvidia.com/gpu:0 attach=DRIVER:3 (the limit in its
//	                               CSINode, instead of the type's) age= not-ready cordoned deleting deleting=10s (time since the deletion) draining=10s (the
//	                               same, with a taint since then) finalizers=a,b (instead of Tenon's) condition=(Registered False for=10m reason=Why) of
//	                               the claim. With machine=CLAIM a kubelet has created it for the claim's machine; unregistered: with
//	                               that taint
//	claim NAME                     a NodeClaim without a node, with the same words; without zone= it has not been
//	                               launched, and type= may name several types
//	pod NAME, pods NAME xN         pending pods; NAME xN makes NAME-1 to NAME-N. Requests as resources (extended ones become
//	                               limits too), limits= container=(...) init=(...) sidecar=(...) overhead= runtime= pod-level=
//	                               select=zone:a tolerate= prefer=(zone in (a) weight=10) spread= together= apart= (below)
//	                               devices=(class=gpu count=2 memory=40Gi model=L4) (it claims this number of devices, with at least
//	                               this memory and with these attributes; count=All)
//	                               port=8080 port=53/udp@10.0.0.1 (in containers too) disk=NAME,NAME scratch=CLASS (an ephemeral
//	                               volume) priority= (a number or a class) labels= (and app:NAME unless given) annotations=
//	                               do-not-disrupt do-not-disrupt=10m owner=Deployment/name (NAME by default) ns= age= deleting deleting=10s (time since the deletion) grace=30s (time to end) finalizers=a,b
//	                               move-window="0 14 * * sun for 3h" scheduler=NAME unready phase= node=NAME (it runs there) nominated=NAME gated untried (kube-scheduler has not tried
//	                               it) launch-delay=30s on-demand-share=30% scaled-up=GROUP,10m (another autoscaler scales that group up for it, which is
//	                               believed for so long), and requirements: all of them, or the next ones after the word or
//	daemonset NAME                 a DaemonSet whose pods are described with the words of a pod
//	pdb NAME                       a PodDisruptionBudget: select=app:web (app:NAME unless said) min= max= allowed= expected= desired= always-allow ns=
//	namespace NAME                 labels=team:a pause= pause-reason=
//	service NAME                   select= (app:NAME by default) ns=; in the same way replicaset, statefulset and
//	                               replicationcontroller, the owners of pods with owner=ReplicaSet/NAME and so on: replicas=4 (1 by
//	                               default)
//	storageclass NAME              driver= wait (WaitForFirstConsumer; Immediate by default) zones=a,b (only there)
//	volume NAME                    a PersistentVolume of 1Gi: zone=a,b driver= class= labels= claim=NAME (makes a disk of this
//	                               name, bound to the volume) ns= (the disk's) attached=NODE attaching=NODE detaching=NODE, and
//	                               requirements on nodes. The default driver is disk.example.com
//	disk NAME                      a PersistentVolumeClaim (claim means NodeClaim here): class= volume=NAME (bound to it; by default
//	                               the disk waits) selected=NODE rwop rwx lost deleting ns=
//	deviceclass NAME               driver=gpu.example.com: selects the driver's devices; resource=example.com/gpu: the extended resource for its devices; age= (if several
//	                               classes have the same resource, the youngest counts)
//	order NAME                     a begun disruption with replacements: nodes=a,b will go, by=c,d are the claims or nodes
//	                               that replace them (they need not exist), reason=Drifted age=1m within=5m (the longest time
//	                               of the drain)
//	delete KIND NAME               removes a pod, node (with its claim), claim, pool, overlay, daemonset, pdb, namespace, service, volume,
//	                               attachment, disk, storageclass or class
//	patch KIND NAME                what somebody has changed of a node, claim or pool by now: labels= annotations= finalizers= deleting,
//	                               and of a node taint= untaint=KEY allocatable= published= ready not-ready gone (the claim stays)
//	yaml ... end                   Kubernetes objects, as YAML between the two lines, for whatever else there is: RuntimeClasses (which
//	                               DaemonSets, buffers and requests name with runtime=), LimitRanges, ResourceQuotas …
//
// # Statements for simulations
//
// These statements describe the cluster's future. Only tenon simulate uses them; the commands below ignore them.
//
//	deployment NAME xN             N pods at all times, with the words of a pod, and day=0:20,8:100,18.5:60 (number of pods by
//	                               hour, UTC, with linear interpolation), weekend=50% (share of them), noise=5%, rollout="0 10 * * 1-5"
//	                               (a cron line for new versions), start=8s (time until a pod is ready) stop=3s (time from its
//	                               deletion to its end), stateful (its pods keep their names)
//	cronjob NAME xN                N pods in each run: schedule="*/15 * * * *" runs=10m
//	cloud NAME                     the profile of the simulated cloud: instant, fixed30, aws-typical, azure-typical, gpu-scarce,
//	                               aws-tight, bad-day
//	fault WHAT                     a fault of the cloud: short, reclaim, throttle, outage, stale, price, kill or
//	                               never-register, at=30m for=2h share=60% factor= lag= count= type= family= zone= capacity=
//	                               machine= call=. Faults of machines that start meanwhile: late-register lag=5m, less
//	                               resource=mem factor=0.9 (this share of the catalog's amount, 0 by default), taint
//	                               taint=KEY:NoSchedule (with a - at the end: without the taint), label label=KEY=VALUE (KEY-: without the label),
//	                               devices resource=nvidia.com/gpu factor=4 lag=90s (or count=: shown this time after the node registers,
//	                               nothing before), attach driver=NAME count=3 lag=1m (a limit of volumes that is known later). Faults of running
//	                               machines' nodes: gone (deleted), bare (deleted and created again by the kubelet), second (a second node)
//
// # Pods and other pods
//
// Three words set relations between pods: spread=zone distributes them evenly over zones, together=zone requires one zone,
// apart=hostname allows one pod on each node. They select the pods of their own statement. In parentheses, further words
// follow the label:
//
//	spread=(zone skew=2 soft min=3)           the largest difference, 1 by default; soft: only if possible; the least number of zones
//	spread=(zone affinity-policy=ignore taints-policy=honor match-keys=hash)
//	together=(zone weight=10)                 with a weight it is a preference
//	apart=(hostname of=app:db,tier:x)         other pods, by their labels; of=* selects all; requirements are possible too: app in (a,b)
//	apart=(hostname ns=blue,green)            in these namespaces rather than the pod's own; all-ns; ns-labels=team:a
//	apart=(hostname match-keys=hash mismatch-keys=team)
//
// Each of these words may occur several times.
//
// # Commands
//
//	provision    prints the plan for pending pods
//	disrupt      prints the nodes that would go, and the reasons why the others stay
//	progress     prints the next steps of begun disruptions
//	resize       prints the missing and the surplus machines of pools with replicas
//	deletion-costs  prints the pods whose deletion cost changes (feature gate PodDeletionCostManagement)
//	apply        executes the last plan: machines start, pods are bound, their unbound disks get volumes, reservations shrink;
//	             apply claims only writes the NodeClaims
//	drift        prints the drifted machines, and marks their claims
//	check        checks every part of the last plan against the present cluster
//	life NAME    takes the steps of the life of a claim, or of a node without a claim, until it must wait, and prints them
//
// Provision and disrupt accept the engine's options: preferences=respect|ignore|weighted preference-share= spot-spread-share= (-1 for none) default-spread= (like
// spread=, without a selector) scheduler=(...) (below) largest-cpu= max-pods-per-node= min-memory-for-pods=256Mi (0 for none)
// buffer-limits=cpu:8 min-values=strict|besteffort effort= (0 for a controller's effort, -1 for none) price-band= max-types= threads= spot-to-spot
// terminate-first-drift no-nominations. They print more with the words cost and why. A simulation takes the options of the
// first command. If this command has no effort=, the simulation's effort is less than a controller's.
//
// scheduler= describes how kube-scheduler ranks nodes, once for each of its profiles: name= (of the scheduler; without it for all
// pods whose scheduler has no profile) fit=LeastAllocated|MostAllocated|RequestedToCapacityRatio resources=cpu:1,mem:2 (with weights)
// shape=0:0,100:10 balanced=cpu,mem weights=NodeAffinity:5,TaintToleration:0 (of score plugins, 0 for off) hard-affinity= ignore-others
// score-nodes=50 (percent of the nodes that it scores) default-spread=(...) no-system-spread.
//
// # A life
//
// The command life calls lifecycle.Next: it finds the facts that a step asks for, executes the step, and prints the parts of
// the step in the order of execution:
//
//	node n draining=10s ...
//	life n machine-gone
//	----
//	list pods
//	terminate machine: gone
//	claim n
//	  Drained True
//	  VolumesDetached True
//	release node n
//	release claim n
//
// Below a node or claim, it prints the values that are new (+), removed (-) or changed. It launches the cheapest available
// machine. Other events need statements: the machine's node joins (node n machine=n) and becomes ready (patch node n ready),
// evicted pods end (delete pod web), volumes are detached (delete attachment csi-data-n). Words of the command: machine-gone
// (the cloud no longer has the machine; by default it exists, and is leaving once it was terminated) pod-left=3m
// brief-pod-left=3m (time since a pod vanished from the node) unseen=POD,POD (pods that the cache does not show yet)
// no-nominations.
package scenario
