import Foundation
import Glibc

/// The standard `process_*` metrics of Prometheus clients, and the memory limit, read from `/proc` and `/sys` at each
/// scrape. Without `/proc` they are
/// not updated.
struct ProcessMetrics: Sendable {
    private let processorSeconds: FloatingPointCounterHandle
    private let residentBytes: GaugeHandle
    private let virtualBytes: GaugeHandle
    private let openDescriptors: GaugeHandle
    private let maximumDescriptors: GaugeHandle
    private let startTime: FloatingPointGaugeHandle
    private let memoryLimit: GaugeHandle

    init(registry: PrometheusRegistry) {
        processorSeconds = registry.floatingPointCounter(
            "process_cpu_seconds_total", help: "User and system CPU time, in seconds.")
        residentBytes = registry.gauge("process_resident_memory_bytes", help: "Resident memory, in bytes.")
        virtualBytes = registry.gauge("process_virtual_memory_bytes", help: "Virtual memory, in bytes.")
        openDescriptors = registry.gauge("process_open_fds", help: "Open file descriptors.")
        maximumDescriptors = registry.gauge("process_max_fds", help: "Maximum number of open file descriptors.")
        startTime = registry.floatingPointGauge(
            "process_start_time_seconds", help: "Start time of the process, in seconds since 1970.")
        memoryLimit = registry.gauge(
            "cloakroom_memory_limit_bytes",
            help: "Memory that the process may use, in bytes: the limit of its cgroup, or the memory of the machine.")
    }

    func update() {
        if let text = Self.read("/proc/self/stat"), let status = ProcessStatus(text) {
            let ticks = Double(sysconf(Int32(_SC_CLK_TCK)))
            processorSeconds.set(total: Double(status.processorTicks) / ticks)
            residentBytes.set(status.residentPages * Int64(sysconf(Int32(_SC_PAGESIZE))))
            virtualBytes.set(status.virtualBytes)
            if let system = Self.read("/proc/stat"), let boot = Self.bootTime(system) {
                startTime.set(Double(boot) + Double(status.startTicks) / ticks)
            }
        }
        if let entries = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd") {
            openDescriptors.set(Int64(entries.count))
        }
        if let limits = Self.read("/proc/self/limits"), let maximum = Self.descriptorLimit(limits) {
            maximumDescriptors.set(maximum)
        }
        let machine = Int64(sysconf(Int32(_SC_PHYS_PAGES))) * Int64(sysconf(Int32(_SC_PAGESIZE)))
        let files = Self.memoryLimitFiles(Self.read("/proc/self/cgroup") ?? "")
        memoryLimit.set(files.compactMap(Self.read).compactMap(Self.memoryLimit).reduce(machine, min))
    }

    /// The files with the memory limits of the process's cgroup and of those that contain it (cgroup v2), from
    /// `/proc/self/cgroup`.
    static func memoryLimitFiles(_ text: String) -> [String] {
        guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix("0::/") }) else { return [] }
        var folder = "/sys/fs/cgroup"
        return [folder + "/memory.max"]
            + line.dropFirst(4).split(separator: "/").map { name in
                folder += "/\(name)"
                return folder + "/memory.max"
            }
    }

    /// The limit in bytes; `nil` for `max`, which means none.
    static func memoryLimit(_ text: String) -> Int64? {
        Int64(text.trimmingCharacters(in: .whitespacesAndNewlines))
    }

    /// The boot time of the machine in seconds since 1970, from `/proc/stat`.
    static func bootTime(_ text: String) -> Int64? {
        text.split(separator: "\n").first { $0.hasPrefix("btime ") }.flatMap { Int64($0.dropFirst(6)) }
    }

    /// The soft limit on descriptors, from `/proc/self/limits`; `nil` if there is none.
    static func descriptorLimit(_ text: String) -> Int64? {
        let name = "Max open files"
        return text.split(separator: "\n").first { $0.hasPrefix(name) }
            .flatMap { $0.dropFirst(name.count).split(separator: " ").first }
            .flatMap { Int64($0) }
    }

    private static func read(_ path: String) -> String? {
        guard let file = FileHandle(forReadingAtPath: path), let data = try? file.readToEnd() else { return nil }
        return String(decoding: data, as: UTF8.self)
    }
}

/// The relevant fields of `/proc/self/stat` (proc_pid_stat(5)).
struct ProcessStatus: Equatable {
    /// User and system time, in clock ticks.
    let processorTicks: UInt64
    /// The start time of the process, in clock ticks since boot.
    let startTicks: UInt64
    /// Virtual memory, in bytes.
    let virtualBytes: Int64
    /// Resident memory, in pages.
    let residentPages: Int64

    /// The second field is the program name in parentheses, which may contain blanks and parentheses. Therefore fields
    /// are counted after the last parenthesis.
    init?(_ text: String) {
        guard let end = text.lastIndex(of: ")") else { return nil }
        let fields = text[text.index(after: end)...].split(whereSeparator: \.isWhitespace)
        guard fields.count > 21, let user = UInt64(fields[11]), let system = UInt64(fields[12]),
            let start = UInt64(fields[19]), let virtual = Int64(fields[20]), let resident = Int64(fields[21])
        else { return nil }
        processorTicks = user &+ system
        startTicks = start
        virtualBytes = virtual
        residentPages = resident
    }
}
