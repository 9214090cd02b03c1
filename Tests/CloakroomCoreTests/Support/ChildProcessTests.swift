import Foundation
import TestSupport
import Testing

@Suite("Child processes of tests", .timeLimit(.minutes(1)))
struct ChildProcessTests {
    private let files: TemporaryDirectory

    init() throws { files = try TemporaryDirectory() }

    private func output(
        _ script: String, directory: String? = nil, environment: [String: String]? = nil
    ) async throws -> String {
        let process = try ChildProcess(
            "sh", ["-c", script], directory: directory, environment: environment,
            output: .file(files.path(of: "output")))
        await expect(process.ends(), equals: ChildProcess.Ending(status: 0))
        return files.text(of: "output")
    }

    @Test("The exit status is reported")
    func exitStatus() async throws {
        await expect((try ChildProcess("sh", ["-c", "exit 7"])).ends(), equals: ChildProcess.Ending(status: 7))
        try expect(ChildProcess("sh", ["-c", "exit 8"]).waitUntilEnd(), equals: ChildProcess.Ending(status: 8))
    }

    @Test("A signal ends the process, and is ignored after the end")
    func signal() async throws {
        let process = try ChildProcess("sleep", ["60"])
        expect(process.isRunning)
        process.signal(SIGTERM)
        let ending = await process.ends()
        expect(ending, equals: ChildProcess.Ending(status: SIGTERM, wasKilled: true))
        expect(!process.isRunning)
        process.signal(SIGKILL)
        expect(process.ending, equals: ending)
    }

    @Test("The working directory and the environment are the given ones")
    func surroundings() async throws {
        try await expect(
            output("pwd -P; echo $A; echo $HOME.", directory: "/", environment: ["A": "b"]), equals: "/\nb\n.\n")
    }

    @Test("The input comes from a file")
    func input() async throws {
        try files.write("given", to: "input")
        let process = try ChildProcess(
            "cat", input: .file(files.path(of: "input")), output: .file(files.path(of: "output")))
        await process.ends()
        expect(files.text(of: "output"), equals: "given")
    }

    @Test("A missing program, folder or file is an error that names it")
    func missing() throws {
        for start in [
            { try ChildProcess("missing-here") }, { try ChildProcess("true", directory: "/missing-here") },
            { try ChildProcess("true", input: .file("/missing-here")) },
        ] {
            let error = try #require(throws: ChildProcess.CannotStart.self) { _ = try start() }
            expect(error.description.contains("missing-here"))
            expect(error.description.contains("No such file or directory"))
        }
    }

    @Test("Descriptors other than the standard streams are not inherited")
    func descriptors() async throws {
        let pipe = try LinePipe()
        defer {
            pipe.closeReadEnd()
            pipe.closeWriteEnd()
        }
        let script = "for n in \(pipe.readEnd) \(pipe.writeEnd); do test ! -e /proc/$$/fd/$n || echo $n; done"
        try await expect(output(script), equals: "")
    }

    @Test("Ignored and blocked signals are not inherited")
    func signals() async throws {
        let lines = try await output("grep -E '^Sig(Blk|Ign)' /proc/self/status").split(separator: "\n")
        expect(lines.count, equals: 2)
        for line in lines {
            let set = try require(UInt64(line.suffix(16), radix: 16))
            // The C library ignores signals 32 and 33, which it uses itself.
            expect(set & 0x7FFF_FFFF, equals: 0, "\(line)")
        }
    }
}
