import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Process metrics")
struct ProcessMetricsTests {
    @Test("A process name with blanks and parentheses does not shift the fields")
    func status() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 9000 1000000 777 1 1 1\n"
        let status = ProcessStatus(text)
        expect(status?.processorTicks, equals: 300)
        expect(status?.startTicks, equals: 9_000)
        expect(status?.virtualBytes, equals: 1_000_000)
        expect(status?.residentPages, equals: 777)
        expect(ProcessStatus("7 (x) S 1"), equals: nil)
        expect(ProcessStatus(""), equals: nil)
    }

    @Test("Boot time and descriptor limit are found among other lines")
    func lines() {
        expect(ProcessMetrics.bootTime("cpu 1 2\nbtime 1700000000\nprocesses 5\n"), equals: 1_700_000_000)
        expect(ProcessMetrics.bootTime("cpu 1 2\n"), equals: nil)
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024       4096       files\n"
        expect(ProcessMetrics.descriptorLimit(limits), equals: 1_024)
        expect(ProcessMetrics.descriptorLimit("Max open files   unlimited  unlimited  files"), equals: nil)
    }

    @Test("The current process has memory, open files and a start time")
    func live() {
        let registry = PrometheusRegistry()
        ProcessMetrics(registry: registry).update()
        #expect(registry.gauge("process_resident_memory_bytes", help: "").value > 1 << 20)
        #expect(registry.gauge("process_open_fds", help: "").value >= 3)
        #expect(registry.gauge("process_max_fds", help: "").value > 0)
        #expect(registry.floatingPointCounter("process_cpu_seconds_total", help: "").value >= 0)
        let started = registry.floatingPointGauge("process_start_time_seconds", help: "").value
        let now = Double(systemWallClock()) / 1e9
        expect(started > now - 86_400 && started < now + 5)
    }

    @Test("The memory limit is the lowest of the cgroups that contain the process, or the memory of the machine")
    func memoryLimit() {
        expect(
            ProcessMetrics.memoryLimitFiles("12:cpu:/x\n0::/system.slice/cloakroom.service\n"),
            equals: [
                "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/system.slice/memory.max",
                "/sys/fs/cgroup/system.slice/cloakroom.service/memory.max",
            ])
        expect(ProcessMetrics.memoryLimitFiles("0::/\n"), equals: ["/sys/fs/cgroup/memory.max"])
        expect(ProcessMetrics.memoryLimitFiles("4:memory:/a\n"), equals: [])
        expect(ProcessMetrics.memoryLimit("536870912\n"), equals: 536_870_912)
        expect(ProcessMetrics.memoryLimit("max\n"), equals: nil)
        let registry = PrometheusRegistry()
        ProcessMetrics(registry: registry).update()
        #expect(registry.gauge("cloakroom_memory_limit_bytes", help: "").value > 1_000_000)
    }
}
