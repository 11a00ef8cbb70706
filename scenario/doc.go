// Package scenario is the text notation for clusters and the plans expected for them, and the reader and writer of
// Kubernetes YAML that gives and takes the same snapshots. Tests, benchmarks, bug reports and documentation share it. It
// decides nothing: plans come from package engine.
//
// # A scenario
//
// A file is lines. A line that begins with # is a comment, an indented line continues the one before. Statements describe
// a cluster; commands ask the engine, and what it answers stands below ---- up to the next empty line:
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
// Statements may follow a command; the next command sees them too. A statement refers only to what stands above it.
//
// # Words
//
// A word is key=value or a flag. Lists are a,b,c; maps are key:value,key:value; a value with words of its own stands in
// parentheses: init=(cpu=1 mem=1Gi); a value with blanks stands in quotes. Resources are cpu, mem, storage, pods, and
// every name with a slash, such as nvidia.com/gpu=1. Labels have short names: zone, region, arch, os, type, capacity,
// pool and hostname; all other names stand for themselves. A requirement is a label, an operator and values:
//
//	zone in (a,b)   zone notin (a)   team exists   team absent   gen > 4   gen >= 4   gen < 6   gen <= 6
//
// A taint is key=value:Effect or key:Effect. A toleration is the same with everything but the key left out at will: team
// tolerates every value and effect, * tolerates everything.
//
// # Statements
//
//	now 2026-01-31T12:00:00Z       sets the clock, which starts at 2026-01-01T12:00:00Z
//	wait 5m                        moves it
//	pool NAME                      a NodePool: class= weight= limits=cpu:10,nodes:3 labels= annotations= taint= startup-taint=
//	                               consolidate-after= (a duration or Never) consolidation= (the policy) budget=10%
//	                               budget=(nodes=0 reasons=Empty,Drifted schedule="0 9 * * *" duration=8h) expire-after= grace=
//	                               replicas= not-ready not-ready="why" deleting pause= pause-reason= retire drift=observe time-zone=
//	                               payback= price-patience= min-memory-for-pods= replace-budget= delete-budget= (as budget=) halted="why its machines do not join", and requirements, each with min=N for
//	                               minValues; what is not said has the API server's defaults
//	class NAME                     a node class: problem="why it cannot be used" repair=(Ready False after=30m reason=Kernel grace=5m
//	                               priority=50) tended=n1,n2 trait=(imageID a,b types=two,four reason=ImageDrift); Kind/NAME for kinds other than KWOKNodeClass
//	type NAME                      an instance type of a class: resources (pods=110 unless said), overhead=cpu:100m,
//	                               zones=a,b (a unless said), price= and spot= for offerings on demand and spot in each of
//	                               them, offer=(zone=a capacity=spot price=0.02 labels=k:v taint=K:NoSchedule sold-out) for others,
//	                               offer=(zone=a reserved=NAME slots=3 price=0.01) for what a reservation has left, sold-out,
//	                               sold-out=b,spot,a/spot, arch= os= (amd64 and linux unless said), labels=family:c,gen:3|4
//	                               (several values: the machine may have either; none: it does not carry the label), class=
//	                               attach=DRIVER:25 (how many volumes a machine takes) quota=NAME:4,NAME:4 spot-quota= (what one takes of
//	                               the cloud's quotas, on demand and spot; offer=(...) has a quota= of its own)
//	                               devices=(driver=gpu.example.com count=8 model=L4 memory=24Gi shares=4 root=each) for the devices that a
//	                               driver will publish, for claims: memory and shares are capacities, other words attributes; each
//	                               stands for another value on every device
//	quota NAME                     what a quota of the cloud's has left: left=6 limit=100 unit=vCPUs scope=REGION more="how to have more"
//	                               read=2m (so long ago: machines launched since then count on top) class=
//	catalog kwok|aws|azure         all types of a built-in catalog: class=
//	overlay NAME                   a NodeOverlay: price=0.05 or adjust=-10%, adjust=+0.02, interruptions=5% (of spot machines in a month; or in an hour, 0.01)
//	                               interruption-cost=2 (USD each), resources that it sets such as nvidia.com/gpu=4,
//	                               weight=, and requirements on types, offerings and labels of pools; all of them unless said
//	node-overhead-price 0.01       what every node costs beside its machine, in USD per hour
//	commitment NAME                machines on demand that are paid for anyway: machines=10 price=0.05 (reserved instances, USD per hour and
//	                               machine) or amount=12.5 discount=0.3 (a Savings Plan), elsewhere= (used by others) end=, and requirements
//	                               on types and offerings
//	node NAME                      a node. With pool= and type= it is Tenon's, registered and initialized, and has a NodeClaim
//	                               of its name: zone= capacity= reserved= quiet=5m (since the last pod event) planned=web-1,web-2
//	                               launched=9m registered=8m ready=5m (so long ago; just now unless said)
//	                               drifted drifted=1h unregistered uninitialized rebooting image= broken=(Ready False for=40m reason=Kernel) backoff=5m taken-back=1m,Drifted gone (only the claim is left) bare (a
//	                               kubelet has made the node anew). Without pool= it is nobody's: cpu= mem=. Both: labels= annotations=
//	                               drivers=gpu.example.com (for whose devices it was started) published=(driver=gpu.example.com count=4 model=L4
//	                               of=2) (what a driver has published, with the words of a type's devices; of two slices the first; pool=b a further pool)
//	                               taint= allocatable=nvidia.com/gpu:0 attach=DRIVER:3 (instead of the type's; what
//	                               its CSINode says) age= not-ready cordoned deleting deleting=10s (told so long ago) draining=10s (and
//	                               closed since) finalizers=a,b (instead of ours) condition=(Registered False for=10m reason=Why) of
//	                               the claim. With machine=CLAIM a kubelet has made it for the claim's machine: unregistered where it
//	                               brings that taint
//	claim NAME                     a NodeClaim whose node is not there yet, with the same words; without zone= it has not been
//	                               launched, and type= may name several
//	pod NAME, pods NAME xN         pending pods; NAME xN makes NAME-1 to NAME-N. Requests as resources (extended ones are
//	                               limits as well), limits= container=(...) init=(...) sidecar=(...) overhead= runtime= pod-level=
//	                               select=zone:a tolerate= prefer=(zone in (a) weight=10) spread= together= apart= (below)
//	                               devices=(class=gpu count=2 memory=40Gi model=L4) (it claims so many devices, with so much memory at least
//	                               and with these attributes; count=All)
//	                               port=8080 port=53/udp@10.0.0.1 (of containers too) disk=NAME,NAME scratch=CLASS (a volume that
//	                               comes and goes with the pod) priority= (a number or a class) labels= (app:NAME beside them, unless said) annotations=
//	                               do-not-disrupt do-not-disrupt=10m owner=Deployment/name (NAME unless said) ns= age= deleting deleting=10s (told so long ago) grace=30s (to end) finalizers=a,b
//	                               move-window="0 14 * * sun for 3h" scheduler=NAME unready phase= node=NAME (it runs there) nominated=NAME gated untried (kube-scheduler has not tried
//	                               it) launch-delay=30s on-demand-share=30% scaled-up=GROUP,10m (another autoscaler scales that group up for it, which is
//	                               believed for so long), and requirements: all of them, or the next ones after the word or
//	daemonset NAME                 a DaemonSet whose pods are described with the words of a pod
//	pdb NAME                       a PodDisruptionBudget: select=app:web (app:NAME unless said) min= max= allowed= expected= desired= always-allow ns=
//	namespace NAME                 labels=team:a pause= pause-reason=
//	service NAME                   select= (app:NAME unless said) ns=; in the same way replicaset, statefulset and
//	                               replicationcontroller, which pods with owner=ReplicaSet/NAME and so on belong to: replicas=4 (1 unless
//	                               said)
//	storageclass NAME              driver= wait (volumes are made where the first pod is; else at once) zones=a,b (only there)
//	volume NAME                    a PersistentVolume of 1Gi: zone=a,b driver= class= labels= claim=NAME (makes the disk of that
//	                               name, bound to it) ns= (the disk's) attached=NODE attaching=NODE detaching=NODE, and
//	                               requirements on nodes. The driver is disk.example.com unless said
//	disk NAME                      a PersistentVolumeClaim (claim means NodeClaim here): class= volume=NAME (bound to it; else it
//	                               waits) selected=NODE rwop rwx lost deleting ns=
//	deviceclass NAME               driver=gpu.example.com, whose devices it selects; resource=example.com/gpu, the extended resource that stands for its devices; age= (of several
//	                               for one resource the youngest counts)
//	order NAME                     a disruption with replacements that has been begun: nodes=a,b are to go, by=c,d are the
//	                               claims or nodes that replace them (they need not exist), reason=Drifted age=1m within=5m (how
//	                               long the drain may take)
//	delete KIND NAME               takes back a pod, node (with its claim), claim, pool, overlay, daemonset, pdb, namespace, service, volume,
//	                               attachment, disk, storageclass or class
//	patch KIND NAME                what somebody has changed of a node, claim or pool by now: labels= annotations= finalizers= deleting,
//	                               and of a node taint= untaint=KEY allocatable= published= ready not-ready gone (the claim stays)
//	yaml ... end                   Kubernetes objects, as YAML between the two lines, for whatever else there is: RuntimeClasses (which
//	                               DaemonSets, buffers and requests name with runtime=), LimitRanges, ResourceQuotas …
//
// # Statements for simulations
//
// These say how the cluster goes on; the commands below do not look at them, tenon simulate does.
//
//	deployment NAME xN             N pods at all times, described with the words of a pod, and day=0:20,8:100,18.5:60 (so many by
//	                               the hour, UTC, in straight lines), weekend=50% (of them), noise=5%, rollout="0 10 * * 1-5" (a
//	                               cron line: a new version comes), start=8s (until a pod is ready) stop=3s (until one that is
//	                               told to end is gone), stateful (its pods keep their names)
//	cronjob NAME xN                N pods each time: schedule="*/15 * * * *" runs=10m
//	cloud NAME                     the profile of the simulated cloud: instant, fixed30, aws-typical, azure-typical, gpu-scarce,
//	                               aws-tight, bad-day
//	fault WHAT                     something that goes wrong there: short, reclaim, throttle, outage, stale, price, kill or
//	                               never-register, at=30m for=2h share=60% factor= lag= count= type= family= zone= capacity=
//	                               machine= call=. Machines that start meanwhile come otherwise: late-register lag=5m, less
//	                               resource=mem factor=0.9 (so much of what the catalog says, 0 unless said), taint
//	                               taint=KEY:NoSchedule (with a - at the end: without it), label label=KEY=VALUE (KEY-: without it),
//	                               devices resource=nvidia.com/gpu factor=4 lag=90s (or count=: shown so long after the node registers,
//	                               nothing before), attach driver=NAME count=3 lag=1m (so many volumes, which is known later). Nodes of machines
//	                               that run on: gone (deleted), bare (and made anew by the kubelet), second (another beside it)
//
// # Pods and other pods
//
// Three words tie pods to pods: spread=zone evens them out over zones, together=zone wants them in one, apart=hostname one on
// each node. They mean the pods of their own statement. In parentheses, after the label, they say more:
//
//	spread=(zone skew=2 soft min=3)           the largest difference, 1 unless said; soft: only if possible; the fewest zones
//	spread=(zone affinity-policy=ignore taints-policy=honor match-keys=hash)
//	together=(zone weight=10)                 with a weight it is a preference
//	apart=(hostname of=app:db,tier:x)         of other pods, by their labels; of=* is all; requirements do too: app in (a,b)
//	apart=(hostname ns=blue,green)            in these namespaces rather than the pod's own; all-ns; ns-labels=team:a
//	apart=(hostname match-keys=hash mismatch-keys=team)
//
// Each can stand several times.
//
// # Commands
//
//	provision    prints the plan for pending pods
//	disrupt      prints which nodes would go, and why the others stay
//	progress     prints how disruptions go on that have been begun
//	resize       prints what pools with replicas lack or have too much of
//	deletion-costs  prints which pods get another deletion cost (feature gate PodDeletionCostManagement)
//	apply        carries out the last plan: machines start, pods are bound, disks that waited for them get volumes, reservations
//	             shrink; apply claims only writes the NodeClaims
//	drift        says which machines have drifted, and marks their claims
//	check        checks every part of the last plan against the cluster as it is now
//	life NAME    takes the steps of a claim's life (or of a node without a claim) until nothing is left to do now, and prints them
//
// Provision and disrupt take the engine's options, preferences=respect|ignore|weighted preference-share= spot-spread-share= (-1 for none) default-spread= (like
// spread=, without what pods it counts) scheduler=(...) (below) largest-cpu= max-pods-per-node= min-memory-for-pods=256Mi (0 for none)
// buffer-limits=cpu:8 min-values=strict|besteffort effort= (0 for what a controller spends, -1 for none) price-band= max-types= threads= spot-to-spot
// terminate-first-drift no-nominations, and print more with cost and why. A simulation
// takes those of the first command; where that says no effort, it spends less than a controller.
//
// scheduler= says how kube-scheduler ranks nodes, once for each of its profiles: name= (of the scheduler; without it for all pods
// whose scheduler has no profile) fit=LeastAllocated|MostAllocated|RequestedToCapacityRatio resources=cpu:1,mem:2 (with weights)
// shape=0:0,100:10 balanced=cpu,mem weights=NodeAffinity:5,TaintToleration:0 (of score plugins, 0 for off) hard-affinity= ignore-others
// score-nodes=50 (percent of the nodes that it looks at) default-spread=(...) no-system-spread.
//
// # A life
//
// The command life is the caller of lifecycle.Next: it finds out what a step asks for, carries the step out, and says each part of it
// in the order in which it is carried out:
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
// Below a node or claim stand its values that are new (+), no longer there (-), or different. It launches the cheapest machine that
// can be had. What else changes, statements say: the machine's node joins (node n machine=n) and becomes ready (patch node n ready),
// evicted pods end (delete pod web), volumes are detached (delete attachment csi-data-n). Words: machine-gone (what the cloud says of
// the machine; else it is there, and leaving once it is told to stop) pod-left=3m brief-pod-left=3m (so long ago a pod vanished from
// the node) unseen=POD,POD (the cache does not show them yet) no-nominations.
package scenario
