import Foundation
import TestSupport

/// A demo on free ports.
struct RunningDemo {
    let program: ChildProgram
    /// `https://localhost:…`
    let gateway: String
    let clear: String
    let admin: String
    let api: String

    /// Options that select a free port for each listener.
    static let onFreePorts = ["--port", "--clear-port", "--admin-port", "--api-port"].flatMap { [$0, "0"] }

    static func running<R>(
        environment: [String: String] = [:], _ body: (RunningDemo) async throws -> R
    ) async throws -> R {
        try await ChildProgram.running(try Executables.demo(), onFreePorts, environment: environment) { program in
            _ = try await program.waits(for: "the last suggested command line") { program in
                program.lines.contains { $0.contains("-X DELETE") } ? true : nil
            }
            return try await body(try RunningDemo(program))
        }
    }

    private init(_ program: ChildProgram) throws {
        func address(_ label: String) throws -> String {
            let line = program.lines.first { $0.hasPrefix("  \(label) ") }
            guard let address = line?.split(separator: " ").last else { throw TimeoutError("\(label) is named") }
            return String(address)
        }
        self.program = program
        gateway = try address("gateway (TLS)")
        clear = try address("gateway (clear)")
        admin = try address("admin")
        api = try address("mock API")
    }

    /// The command lines that the demo prints for pasting.
    var pasteable: [String] {
        program.lines.map { $0.trimmingCharacters(in: .whitespaces) }.filter { $0.hasPrefix("curl ") }
    }
}

extension String {
    /// The port at the end of an address.
    var port: Int { split(separator: ":").last.flatMap { Int($0) } ?? 0 }
}
