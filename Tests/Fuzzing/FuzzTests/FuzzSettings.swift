import Foundation
import FuzzTargets
import TestSupport
import Testing

/// The fuzzing options of the environment.
struct FuzzSettings {
    /// The time for each target.
    let duration: Duration
    let seed: UInt64
    /// A single input to check.
    let input: (target: FuzzTarget, bytes: [UInt8])?

    static let current = FuzzSettings(ProcessInfo.processInfo.environment)

    private init(_ environment: [String: String]) {
        duration = environment["CLOAKROOM_FUZZ_SECONDS"].flatMap(Double.init).map { .seconds($0) } ?? .milliseconds(500)
        seed = environment["CLOAKROOM_FUZZ_SEED"].flatMap { UInt64($0) } ?? 1
        let parts = environment["CLOAKROOM_FUZZ_INPUT"]?.split(separator: ":", maxSplits: 1) ?? []
        guard parts.count == 2, let target = FuzzTarget.named(String(parts[0])),
            let bytes = Data(base64Encoded: String(parts[1]))
        else {
            input = nil
            return
        }
        input = (target, Array(bytes))
    }

    /// The command that checks an input again.
    static func replay(_ target: FuzzTarget, _ bytes: [UInt8]) -> String {
        "CLOAKROOM_FUZZ_INPUT=\(target.name):\(Data(bytes).base64EncodedString()) deploy/test.sh --filter FuzzTests/replay"
    }
}

/// The stored inputs: examples of each format, and inputs that once violated an invariant.
enum Corpus {
    private static let directory = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Corpus")

    static func directories() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: directory.path).sorted()
    }

    static func inputs(of target: FuzzTarget) throws -> [(name: String, bytes: [UInt8])] {
        let directory = directory.appendingPathComponent(target.name)
        return try FileManager.default.contentsOfDirectory(atPath: directory.path).sorted().map { name in
            (name, Array(try Data(contentsOf: directory.appendingPathComponent(name))))
        }
    }
}

/// Keeps the current input in a file, in case it crashes the process.
struct FuzzCase {
    private let url: URL
    private let file: FileHandle

    init(of target: FuzzTarget) throws {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("cloakroom-fuzz-last-\(target.name)")
        try require(FileManager.default.createFile(atPath: url.path, contents: nil))
        file = try FileHandle(forWritingTo: url)
        print("fuzzing \(target.name): if the process crashes, \(url.path) contains the input")
    }

    func begin(_ bytes: [UInt8]) {
        try? file.seek(toOffset: 0)
        try? file.write(contentsOf: bytes)
        try? file.truncate(atOffset: UInt64(bytes.count))
    }

    func end() {
        try? file.close()
        try? FileManager.default.removeItem(at: url)
    }
}
