import Testing

@testable import CloakroomTelemetry

@Suite("Log writer")
struct LogWriterTests {
    private let line = [UInt8](repeating: UInt8(ascii: "x"), count: 1_023) + [UInt8(ascii: "\n")]

    @Test("Shutting down writes everything that was submitted, in order")
    func shutdownFlushes() async throws {
        let pipe = try LinePipe()
        let dropped = CounterHandle()
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, dropped: dropped)
        for index in 0..<100 { writer.submit(bytes: Array("line \(index)\n".utf8), lines: 1) }
        #expect(writer.shutdown())
        pipe.closeWriteEnd()
        let text = String(decoding: await pipe.readToEnd(), as: UTF8.self)
        #expect(text == (0..<100).map { "line \($0)\n" }.joined())
        #expect(dropped.value == 0)
    }

    @Test("When nobody reads, submitting does not wait: what does not fit is dropped and counted")
    func fullPipe() async throws {
        let pipe = try LinePipe()
        let dropped = CounterHandle()
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, pendingLimit: 64 << 10, dropped: dropped)
        let batch = [UInt8]((0..<8).flatMap { _ in line })
        for _ in 0..<100 { writer.submit(bytes: batch, lines: 8) }
        #expect(dropped.value > 0)

        async let received = pipe.readToEnd()
        #expect(writer.shutdown(within: .seconds(30)))
        pipe.closeWriteEnd()
        let lines = await received.count { $0 == UInt8(ascii: "\n") }
        #expect(Int64(lines) + dropped.value == 800)
        #expect(await received.count == lines * line.count)
    }

    @Test(
        "A full pipe slows nobody who submits, and once somebody reads again every line is whole",
        .timeLimit(.minutes(1)))
    func readerComesBack() async throws {
        let pipe = try LinePipe()
        let dropped = CounterHandle()
        // Room that no number of whole lines fills up: a short line always finds some.
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, pendingLimit: 64 << 10 + 100, dropped: dropped)
        let start = ContinuousClock.now
        for _ in 0..<20_000 { writer.submit(bytes: line, lines: 1) }
        // Whoever waited for the pipe would wait for ever, for nobody reads.
        #expect(ContinuousClock.now - start < .seconds(10))
        #expect(dropped.value > 19_000)
        let kept = 20_000 - Int(dropped.value)

        async let received = pipe.readToEnd()
        writer.submit(bytes: Array("after the pause\n".utf8), lines: 1)
        #expect(writer.shutdown(within: .seconds(30)))
        pipe.closeWriteEnd()
        let lines = await received.split(separator: UInt8(ascii: "\n"))
        #expect(lines.count == kept + 1)
        #expect(lines.dropLast().allSatisfy { $0 == line.dropLast() })
        #expect(lines.last.map { String(decoding: $0, as: UTF8.self) } == "after the pause")
        #expect(Int(dropped.value) == 20_000 - kept)
    }

    @Test("A stuck reader holds up the exit no longer than the bound")
    func stuckShutdown() throws {
        let pipe = try LinePipe()
        let dropped = CounterHandle()
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, dropped: dropped)
        writer.submit(bytes: [UInt8]((0..<200).flatMap { _ in line }), lines: 200)
        #expect(!writer.shutdown(within: .milliseconds(50)))
        pipe.closeReadEnd()
        #expect(writer.shutdown(within: .seconds(30)))
        #expect(dropped.value > 0)
        pipe.closeWriteEnd()
    }

    @Test("A reader that went away ends neither the process nor the writer, and its lines are counted")
    func brokenPipe() throws {
        let pipe = try LinePipe()
        pipe.closeReadEnd()
        let dropped = CounterHandle()
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, dropped: dropped)
        writer.submit(bytes: Array("one\ntwo\n".utf8), lines: 2)
        #expect(writer.shutdown(within: .seconds(30)))
        #expect(dropped.value == 2)
        pipe.closeWriteEnd()
    }

    @Test("A descriptor that does not block is waited for")
    func nonBlocking() async throws {
        let pipe = try LinePipe()
        pipe.setNonBlocking()
        let dropped = CounterHandle()
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, dropped: dropped)
        writer.submit(bytes: [UInt8]((0..<300).flatMap { _ in line }), lines: 300)
        async let received = pipe.readToEnd()
        #expect(writer.shutdown(within: .seconds(30)))
        pipe.closeWriteEnd()
        #expect(await received.count == 300 * line.count)
        #expect(dropped.value == 0)
    }

    @Test("Nothing is accepted after the end")
    func closed() throws {
        let pipe = try LinePipe()
        let dropped = CounterHandle()
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, dropped: dropped)
        writer.shutdown()
        writer.submit(bytes: Array("late\n".utf8), lines: 1)
        #expect(dropped.value == 1)
        pipe.closeReadEnd()
        pipe.closeWriteEnd()
    }
}
