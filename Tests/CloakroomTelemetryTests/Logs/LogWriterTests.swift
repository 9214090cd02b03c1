import CloakroomCore
import Foundation
import Logging
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Log writer")
struct LogWriterTests {
    private let line = [UInt8](repeating: UInt8(ascii: "x"), count: 1_023) + [UInt8(ascii: "\n")]
    private let pipe: LinePipe
    private let dropped = CounterHandle()
    private let droppedEvents = CounterHandle()

    init() throws { pipe = try LinePipe() }

    /// What a reader gets that reads until the writer has shut down.
    private func read(until writer: LogWriter) async -> [UInt8] {
        async let received = pipe.readToEnd()
        expect(writer.shutdown(within: .seconds(30)))
        pipe.closeWriteEnd()
        return await received
    }

    @Test("A shutdown writes all submitted lines, in order")
    func shutdownFlushes() async throws {
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, dropped: dropped)
        for index in 0..<100 { writer.submit(bytes: Array("line \(index)\n".utf8), lines: 1) }
        expect(writer.shutdown())
        await expect(pipe.text(), equals: (0..<100).map { "line \($0)\n" }.joined())
        expect(dropped.value, equals: 0)
    }

    @Test("Without a reader submitting does not block: lines that do not fit are dropped and counted")
    func fullPipe() async throws {
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, pendingLimit: 64 << 10, dropped: dropped)
        let batch = [UInt8]((0..<8).flatMap { _ in line })
        for _ in 0..<100 { writer.submit(bytes: batch, lines: 8) }
        #expect(dropped.value > 0)

        let received = await read(until: writer)
        let lines = received.count { $0 == UInt8(ascii: "\n") }
        expect(Int64(lines) + dropped.value, equals: 800)
        expect(received.count, equals: lines * line.count)
    }

    @Test(
        "A full pipe blocks no caller, and once it is read again every line is complete",
        .timeLimit(.minutes(1)))
    func readerComesBack() async throws {
        // The limit is not a multiple of the line length, so that a short line always fits.
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, pendingLimit: 64 << 10 + 100, dropped: dropped)
        let start = ContinuousClock.now
        for _ in 0..<20_000 { writer.submit(bytes: line, lines: 1) }
        // A caller that waited for the pipe would block forever, because nothing reads from it.
        #expect(ContinuousClock.now - start < .seconds(10))
        #expect(dropped.value > 19_000)
        let kept = 20_000 - Int(dropped.value)

        async let received = pipe.readToEnd()
        writer.submit(bytes: Array("after the pause\n".utf8), lines: 1)
        expect(writer.shutdown(within: .seconds(30)))
        pipe.closeWriteEnd()
        let lines = await received.split(separator: UInt8(ascii: "\n"))
        expect(lines.count, equals: kept + 1)
        expect(lines.dropLast().allSatisfy { $0 == line.dropLast() })
        expect(lines.last.map { String(decoding: $0, as: UTF8.self) }, equals: "after the pause")
        expect(Int(dropped.value), equals: 20_000 - kept)
    }

    @Test("A stuck reader delays the exit by at most the shutdown timeout")
    func stuckShutdown() throws {
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, dropped: dropped)
        writer.submit(bytes: [UInt8]((0..<200).flatMap { _ in line }), lines: 200)
        expect(!writer.shutdown(within: .milliseconds(50)))
        pipe.closeReadEnd()
        expect(writer.shutdown(within: .seconds(30)))
        #expect(dropped.value > 0)
        pipe.closeWriteEnd()
    }

    @Test("A reader that closed its end stops neither the process nor the writer, and its lines are counted")
    func brokenPipe() throws {
        pipe.closeReadEnd()
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, dropped: dropped)
        writer.submit(bytes: Array("one\ntwo\n".utf8), lines: 2)
        expect(writer.shutdown(within: .seconds(30)))
        expect(dropped.value, equals: 2)
        pipe.closeWriteEnd()
    }

    @Test("A non-blocking descriptor is polled until it is writable")
    func nonBlocking() async throws {
        pipe.setNonBlocking()
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, dropped: dropped)
        writer.submit(bytes: [UInt8]((0..<300).flatMap { _ in line }), lines: 300)
        await expect(read(until: writer).count, equals: 300 * line.count)
        expect(dropped.value, equals: 0)
    }

    @Test("Nothing is accepted after the shutdown")
    func closed() throws {
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, dropped: dropped)
        writer.shutdown()
        writer.submit(bytes: Array("late\n".utf8), lines: 1)
        expect(dropped.value, equals: 1)
        pipe.closeReadEnd()
        pipe.closeWriteEnd()
    }

    // MARK: - Events

    private func event(_ number: Int, size: Int = 256) -> [UInt8] {
        let text = Array("event \(number) ".utf8)
        return text + [UInt8](repeating: UInt8(ascii: "e"), count: size - text.count - 1) + [UInt8(ascii: "\n")]
    }

    private func numbers(_ bytes: [UInt8]) -> [Int] {
        bytes.split(separator: UInt8(ascii: "\n")).filter { $0.starts(with: "event ".utf8) }
            .compactMap { Int(String(decoding: $0.split(separator: UInt8(ascii: " "))[1], as: UTF8.self)) }
    }

    @Test(
        "Rule 51: with a stalled reader and a flood of access lines every audit line is written once it reads again",
        .timeLimit(.minutes(1)))
    func eventsSurviveFlood() async throws {
        let writer = LogWriter(
            fileDescriptor: pipe.writeEnd, pendingLimit: 512 << 10, dropped: dropped, droppedEvents: droppedEvents)
        // More than the limit and the reserve together: 8 MiB of traffic, 1.25 MiB of events.
        let access = [UInt8]((0..<8).flatMap { _ in line })
        for number in 0..<5_000 {
            if number < 1_000 { writer.submit(bytes: access, lines: 8) }
            writer.submit(bytes: event(number), lines: 1, kind: .event)
        }
        expect(droppedEvents.value, equals: 0)
        let received = await read(until: writer)
        expect(numbers(received), equals: Array(0..<5_000))
        let traffic = received.count { $0 == UInt8(ascii: "\n") } - 5_000
        expect(dropped.value, equals: Int64(8_000 - traffic))
    }

    @Test("Rule 51: any number of traffic lines leave the reserve unused", .timeLimit(.minutes(1)))
    func reserve() async throws {
        let writer = LogWriter(
            fileDescriptor: pipe.writeEnd, pendingLimit: 64 << 10, dropped: dropped, droppedEvents: droppedEvents)
        for _ in 0..<10_000 { writer.submit(bytes: line, lines: 1) }
        // The pipe itself holds 64 KiB.
        #expect(dropped.value >= 10_000 - 2 * 64 - 1)
        writer.submit(bytes: [UInt8]((0..<1_000).flatMap { event($0, size: 1_000) }), lines: 1_000, kind: .event)
        expect(droppedEvents.value, equals: 0)
        expect(numbers(await read(until: writer)).count, equals: 1_000)
    }

    @Test(
        "Rule 51: events beyond the reserve are counted separately, and a line reports them once the reader continues",
        .timeLimit(.minutes(1)))
    func tooManyEvents() async throws {
        let writer = LogWriter(
            fileDescriptor: pipe.writeEnd, pendingLimit: 64 << 10, dropped: dropped, droppedEvents: droppedEvents
        ) { Array("lost \($0)\n".utf8) }
        let start = ContinuousClock.now
        for number in 0..<20_000 { writer.submit(bytes: event(number), lines: 1, kind: .event) }
        // Dropping an event does not search the queue.
        #expect(ContinuousClock.now - start < .seconds(5))
        let lost = Int(droppedEvents.value)
        // 5 MiB of events; pipe, limit and reserve hold 1.2 MiB.
        expect(lost > 14_000 && lost < 17_000)
        expect(dropped.value, equals: 0)
        let bytes = await read(until: writer)
        let kept = numbers(bytes)
        expect(kept.count, equals: 20_000 - lost)
        expect(kept, equals: kept.sorted())
        let reports = String(decoding: bytes, as: UTF8.self).split(separator: "\n").filter { $0.hasPrefix("lost ") }
        expect(reports, equals: ["lost \(lost)"])
    }

    @Test(
        "Rule 51: audit lines, warnings and errors are events; lines up to level info and access lines are not"
    )
    func levels() async throws {
        var settings = TelemetrySettings()
        settings.logFileDescriptor = pipe.writeEnd
        settings.pendingLogLimit = 128 << 10
        settings.logLevel = .trace
        let telemetry = GatewayTelemetry(settings: settings)
        // More than the pipe holds: the line stays pending, and no other traffic line fits.
        telemetry.logWriter.submit(bytes: [UInt8](repeating: 0x0a, count: 128 << 10), lines: 128 << 10)
        let logger = Logger(label: "test") { telemetry.makeLogHandler(label: $0) }
        logger.info("too much")
        expect(telemetry.metrics.droppedLogs.value, equals: 1)
        AuditLog(logger: logger).record(
            .signIn(outcome: .success, accountHash: 1, duration: .zero), from: AuditContext(),
            now: WallTime(seconds: 0))
        for level in Logger.Level.allCases {
            expect(LogWriter.LineKind(level), equals: (level >= .notice ? .event : .traffic))
        }
        async let received = pipe.readToEnd()
        telemetry.shutdown()
        pipe.closeWriteEnd()
        expect(String(decoding: await received, as: UTF8.self).contains(#""event":"sign_in""#))
        expect(telemetry.metrics.droppedEvents.value, equals: 0)
    }

    @Test("The line that reports dropped events is JSON if the log is", arguments: [true, false])
    func notice(isJSON: Bool) throws {
        let line = GatewayLogHandler.droppedEventsNotice(12, isJSON ? .json : .text)
        expect(line.last, equals: UInt8(ascii: "\n"))
        let text = String(decoding: line, as: UTF8.self)
        guard isJSON else { return expect(text.hasSuffix(" count=12 event=log_lines_dropped\n")) }
        let object = try require(JSONSerialization.jsonObject(with: Data(line)) as? [String: Any])
        expect(object["level"] as? String, equals: "error")
        expect(object["count"] as? Int, equals: 12)
        expect(object["event"] as? String, equals: "log_lines_dropped")
    }
}
