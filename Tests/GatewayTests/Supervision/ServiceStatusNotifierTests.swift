import CloakroomCore
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import cloakroom

/// What the service manager receives.
@Suite("Service status", .timeLimit(.minutes(1)))
struct ServiceStatusNotifierTests {
    /// The messages, in order.
    private final class Messages: Sendable {
        private let list = Mutex<[String]>([])

        func append(_ message: String) { list.withLock { $0.append(message) } }

        /// The messages since the last call.
        func next() -> [String] {
            list.withLock { list in
                defer { list = [] }
                return list
            }
        }
    }

    private func outcome(_ problems: [String] = []) -> ReloadOutcome {
        ReloadOutcome(time: WallTime(milliseconds: 1), trigger: .signal, problems: problems, hash: "abc")
    }

    @Test("Ready is sent once, when the last part listens")
    func ready() {
        let messages = Messages()
        let notifier = ServiceStatusNotifier(awaiting: [.clients, .admin, .control]) { messages.append($0) }
        notifier.started(.clients, addresses: ["[::]:443", "127.0.0.1:80"])
        notifier.started(.admin)
        expect(messages.next(), equals: [])
        notifier.started(.control)
        expect(messages.next(), equals: ["READY=1\nSTATUS=Serving on [::]:443, 127.0.0.1:80"])
        notifier.started(.control)
        expect(messages.next(), equals: [])
    }

    @Test("A reload is sent with the monotonic time in microseconds, and ends with ready and the outcome")
    func reload() {
        let messages = Messages()
        let notifier = ServiceStatusNotifier(awaiting: [.clients], uptime: { 5_000_999 }) { messages.append($0) }
        notifier.reload(.began)
        notifier.reload(.ended)
        expect(messages.next(), equals: [], "not before the gateway is ready")
        notifier.started(.clients, addresses: ["a:1"])
        _ = messages.next()

        notifier.reload(.began)
        expect(messages.next(), equals: ["RELOADING=1\nMONOTONIC_USEC=5000\nSTATUS=Reloading the configuration"])
        notifier.noteReload(outcome(["a.yaml:1:2: x: is wrong\nREADY=1", "second"]))
        notifier.reload(.ended)
        expect(
            messages.next(),
            equals: ["READY=1\nSTATUS=Serving on a:1; last reload failed: a.yaml:1:2: x: is wrong READY=1"])

        // Files that a poll found to be invalid: no reload began.
        notifier.noteReload(outcome([String(repeating: "x", count: 9_000)]))
        notifier.reload(.ended)
        let status = messages.next()
        expect(status.count == 1 && status[0].hasPrefix("STATUS=Serving on a:1; last reload failed: xxx"))
        expect(status.allSatisfy { $0.utf8.count < 400 })

        notifier.reload(.began)
        notifier.noteReload(outcome())
        notifier.reload(.ended)
        expect(messages.next().last, equals: "READY=1\nSTATUS=Serving on a:1")
    }

    @Test("Stopping is sent once, and a reload after it is not reported")
    func stopping() {
        let messages = Messages()
        let notifier = ServiceStatusNotifier(awaiting: [.clients]) { messages.append($0) }
        notifier.started(.clients)
        notifier.stopping()
        notifier.stopping()
        notifier.reload(.began)
        notifier.reload(.ended)
        expect(
            messages.next(),
            equals: ["READY=1\nSTATUS=Serving", "STOPPING=1\nSTATUS=Stopping; requests in flight complete"])
    }

    @Test("Watchdog messages continue while event loops respond, and end when one is blocked")
    func watchdog() async throws {
        let messages = Messages()
        let isBlocked = Mutex(false)
        let sent = Mutex(0)
        let notifier = ServiceStatusNotifier(awaiting: [.clients]) { messages.append($0) }
        let service = SupervisionService(
            notifier: notifier, watchdogInterval: .milliseconds(5),
            passThroughLoops: {
                // A blocked event loop never completes the call.
                while isBlocked.withLock({ $0 }), !Task.isCancelled { await Task.yield() }
            },
            sendWatchdog: { sent.withLock { $0 += 1 } })
        let running = Task { await service.run() }
        try await eventually("three messages") { sent.withLock { $0 >= 3 } }
        isBlocked.withLock { $0 = true }
        let before = sent.withLock { $0 }
        try await Task.sleep(for: .milliseconds(50))
        // The loops may have been passed just before they were blocked.
        #expect(sent.withLock { $0 } <= before + 1)
        running.cancel()
        await running.value
        expect(messages.next(), equals: ["STOPPING=1\nSTATUS=Stopping; requests in flight complete"])
    }

    @Test(
        "The variables of a service manager",
        arguments: [
            ([:], nil, nil),
            (["NOTIFY_SOCKET": ""], nil, nil),
            (["NOTIFY_SOCKET": "vsock:2:1234"], nil, nil),
            (["NOTIFY_SOCKET": "@abstract"], "@abstract", nil),
            (["NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "30000000"], "/run/n", .seconds(15)),
            (["NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"], "/run/n", .seconds(15)),
            (["NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"], "/run/n", nil),
            (["NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "0"], "/run/n", nil),
            (["NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "soon"], "/run/n", nil),
        ] as [([String: String], String?, Duration?)])
    func variables(environment: [String: String], address: String?, interval: Duration?) {
        let socket = NotifySocket(environment, processID: 7)
        expect(socket?.address, equals: address)
        expect(socket?.watchdogInterval, equals: interval)
    }
}
