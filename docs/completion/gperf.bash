# Completion of gperf for bash: source it, or put it into
# /usr/share/bash-completion/completions as gperf.
# Written by go test ./cmd/gperf -run TestDocs -update. Do not edit.

_gperf() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		mapfile -t COMPREPLY < <(compgen -W "client server sweep lab table compare show probe netperf netserver help --help --version" -- "$cur")
		return
	fi
	# bash cuts --flag=value into three words.
	if [[ $cur == = ]]; then
		cur=
	elif [[ $prev == = ]]; then
		prev=${COMP_WORDS[COMP_CWORD-2]}
	fi
	case $command/$prev in
	client/--test | client/-t)
		mapfile -t COMPREPLY < <(compgen -W "TCP_STREAM TCP_MAERTS TCP_RR TCP_CRR TCP_CC UDP_STREAM UDP_RR" -- "$cur")
		return
		;;
	client/--send)
		mapfile -t COMPREPLY < <(compgen -W "write sendfile splice vmsplice zerocopy" -- "$cur")
		return
		;;
	client/--receive)
		mapfile -t COMPREPLY < <(compgen -W "read discard splice zerocopy" -- "$cur")
		return
		;;
	client/--file)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	client/--sink)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	client/--secret-file)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	client/--format)
		mapfile -t COMPREPLY < <(compgen -W "text json jsonl csv keyval gobench hgrm hdr" -- "$cur")
		return
		;;
	client/--output | client/-o)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	client/--duration | client/-d | client/--warmup | client/--interval | client/-i | client/--bytes | client/--transactions | client/--rate | client/--threads | client/--cpu | client/--repeat | client/--confidence | client/--streams | client/-P | client/--message-size | client/-m | client/--receive-size | client/--request-size | client/--response-size | client/--burst | client/--response-timeout | client/--pipe-size | client/--splice-flags | client/--chunk | client/--sndbuf | client/--rcvbuf | client/--mss | client/--congestion | client/--notsent-lowat | client/--window-clamp | client/--user-timeout | client/--pacing-rate | client/--tos | client/--priority | client/--mark | client/--busy-poll | client/--bind-device | client/--mtu-discover | client/--fastopen | client/--linger | client/--rcvlowat | client/--incoming-cpu | client/--sockopt | client/--bind | client/--connect-timeout | client/--netns | client/--label)
		return
		;;
	server/--secret-file)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	server/--port-file)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	server/--listen | server/--data-ports | server/--allow | server/--max-streams | server/--max-duration | server/--max-tests | server/--max-memory | server/--netperf | server/--netns)
		return
		;;
	sweep/--order)
		mapfile -t COMPREPLY < <(compgen -W "interleaved random sequential" -- "$cur")
		return
		;;
	sweep/--lab)
		mapfile -t COMPREPLY < <(compgen -W "loopback veth" -- "$cur")
		return
		;;
	sweep/--preset)
		mapfile -t COMPREPLY < <(compgen -W "nodelay-coalescing small-rcvbuf splice-mtu trials tso" -- "$cur")
		return
		;;
	sweep/-f)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	sweep/--output | sweep/-o)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	sweep/--test | sweep/-t)
		mapfile -t COMPREPLY < <(compgen -W "TCP_STREAM TCP_MAERTS TCP_RR TCP_CRR TCP_CC UDP_STREAM UDP_RR" -- "$cur")
		return
		;;
	sweep/--send)
		mapfile -t COMPREPLY < <(compgen -W "write sendfile splice vmsplice zerocopy" -- "$cur")
		return
		;;
	sweep/--receive)
		mapfile -t COMPREPLY < <(compgen -W "read discard splice zerocopy" -- "$cur")
		return
		;;
	sweep/--secret-file)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	sweep/--axis | sweep/--trials | sweep/--until-precise | sweep/--max-trials | sweep/--seed | sweep/--cooldown | sweep/--hook-before | sweep/--hook-after | sweep/--label | sweep/--duration | sweep/-d | sweep/--warmup | sweep/--interval | sweep/-i | sweep/--bytes | sweep/--transactions | sweep/--rate | sweep/--threads | sweep/--cpu | sweep/--streams | sweep/-P | sweep/--message-size | sweep/-m | sweep/--receive-size | sweep/--request-size | sweep/--response-size | sweep/--burst | sweep/--response-timeout | sweep/--pipe-size | sweep/--splice-flags | sweep/--chunk | sweep/--sndbuf | sweep/--rcvbuf | sweep/--mss | sweep/--congestion | sweep/--notsent-lowat | sweep/--window-clamp | sweep/--user-timeout | sweep/--pacing-rate | sweep/--tos | sweep/--priority | sweep/--mark | sweep/--busy-poll | sweep/--bind-device | sweep/--mtu-discover | sweep/--fastopen | sweep/--linger | sweep/--rcvlowat | sweep/--incoming-cpu | sweep/--sockopt | sweep/--bind | sweep/--connect-timeout)
		return
		;;
	lab/--lab)
		mapfile -t COMPREPLY < <(compgen -W "loopback veth" -- "$cur")
		return
		;;
	lab/--set)
		return
		;;
	table/--value)
		mapfile -t COMPREPLY < <(compgen -W "throughput transactions latency p50 p90 p99 p999 latency-max connect lost-transactions lost jitter retransmits retransmit-share rtos reorderings rtt rtt-max client-cpu server-cpu client-softirq server-softirq client-thread server-thread client-steal server-steal demand client-demand server-demand transaction-demand bytes-per-segment messages-per-segment window busy rwnd-limited sndbuf-limited blocked client-run-queue-wait server-run-queue-wait duration setup stalls" -- "$cur")
		return
		;;
	table/--format)
		mapfile -t COMPREPLY < <(compgen -W "text markdown csv tsv" -- "$cur")
		return
		;;
	table/--output | table/-o)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	table/--rows | table/--cols | table/--where)
		return
		;;
	compare/--metric)
		mapfile -t COMPREPLY < <(compgen -W "throughput transactions latency p50 p90 p99 p999 latency-max connect lost-transactions lost jitter retransmits retransmit-share rtos reorderings rtt rtt-max client-cpu server-cpu client-softirq server-softirq client-thread server-thread client-steal server-steal demand client-demand server-demand transaction-demand bytes-per-segment messages-per-segment window busy rwnd-limited sndbuf-limited blocked client-run-queue-wait server-run-queue-wait duration setup stalls" -- "$cur")
		return
		;;
	compare/--correct)
		mapfile -t COMPREPLY < <(compgen -W "bh holm" -- "$cur")
		return
		;;
	compare/--format)
		mapfile -t COMPREPLY < <(compgen -W "text markdown json" -- "$cur")
		return
		;;
	compare/--output | compare/-o)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	compare/-a | compare/-b | compare/--where | compare/--by | compare/--threshold | compare/--alpha | compare/--power)
		return
		;;
	show/--format)
		mapfile -t COMPREPLY < <(compgen -W "text json jsonl csv keyval gobench hgrm hdr" -- "$cur")
		return
		;;
	show/--output | show/-o)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	esac
	case $command/$cur in
	client/-*)
		mapfile -t COMPREPLY < <(compgen -W "--allow-clamp --bidir --bind --bind-device --burst --busy-poll --bytes --chunk --confidence --congestion --connect-timeout --cork --cpu --duration --fastopen --file --force-buffers --format --help --incoming-cpu --interval --json --keepalive --label --linger --mark --message-size --more --mptcp --mss --mtu-discover --netns --nodelay --notsent-lowat --output --pacing-rate --pipe-size --priority --quickack --quiet --rate --rcvbuf --rcvlowat --receive --receive-size --repeat --request-size --response-size --response-timeout --secret-file --send --sink --sndbuf --sockopt --splice-flags --streams --strict --test --threads --tos --transactions --user-timeout --verify --warmup --window-clamp -4 -6 -J -P -d -i -m -o -t" -- "$cur")
		;;
	client/*)
		mapfile -t COMPREPLY < <(compgen -A hostname -- "$cur")
		;;
	server/-*)
		mapfile -t COMPREPLY < <(compgen -W "--allow --data-ports --help --listen --max-duration --max-memory --max-streams --max-tests --netns --netperf --once --port-file --secret-file --verbose" -- "$cur")
		;;
	sweep/-*)
		mapfile -t COMPREPLY < <(compgen -W "--allow-clamp --axis --bidir --bind --bind-device --burst --busy-poll --bytes --chunk --congestion --connect-timeout --cooldown --cork --cpu --dry-run --duration --fastopen --force-buffers --help --hook-after --hook-before --incoming-cpu --interval --keep --keepalive --lab --label --linger --mark --max-trials --message-size --more --mptcp --mss --mtu-discover --nodelay --notsent-lowat --order --output --pacing-rate --pipe-size --preset --priority --quickack --quiet --rate --rcvbuf --rcvlowat --receive --receive-size --request-size --response-size --response-timeout --resume --secret-file --seed --send --sndbuf --sockopt --splice-flags --streams --test --threads --tos --transactions --trials --until-precise --user-timeout --verify --warmup --window-clamp -4 -6 -P -d -f -i -m -o -t" -- "$cur")
		;;
	sweep/*)
		mapfile -t COMPREPLY < <(compgen -A hostname -- "$cur")
		;;
	lab/-*)
		mapfile -t COMPREPLY < <(compgen -W "--help --lab --set" -- "$cur")
		;;
	table/-*)
		mapfile -t COMPREPLY < <(compgen -W "--cols --detail --format --help --output --rows --value --where -o" -- "$cur")
		;;
	compare/-*)
		mapfile -t COMPREPLY < <(compgen -W "--aa --alpha --bisect --by --correct --format --help --metric --output --power --threshold --where -a -b -o" -- "$cur")
		;;
	show/-*)
		mapfile -t COMPREPLY < <(compgen -W "--format --help --json --output -J -o" -- "$cur")
		;;
	show/*)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		;;
	probe/-*)
		mapfile -t COMPREPLY < <(compgen -W "--help --json -6 -J" -- "$cur")
		;;
	netperf/-*)
		mapfile -t COMPREPLY < <(compgen -W "--help" -- "$cur")
		;;
	netserver/-*)
		mapfile -t COMPREPLY < <(compgen -W "--help" -- "$cur")
		;;
	esac
}

complete -F _gperf gperf
