import Foundation
import FuzzTargets
import Testing

/// Keeps the current input in a file, in case it crashes the process.
struct Trial {
    private let url: URL
    private let file: FileHandle

    init(of target: FuzzTarget) throws {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("cloakroom-fuzz-last-\(target.name)")
        try #require(FileManager.default.createFile(atPath: url.path, contents: nil))
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
