import Foundation
import FuzzTargets
import Testing

/// Keeps the input that is being tried in a file, for the one that takes the process down with it.
struct Trial {
    private let url: URL
    private let file: FileHandle

    init(of target: FuzzTarget) throws {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("cloakroom-fuzz-last-\(target.name)")
        try #require(FileManager.default.createFile(atPath: url.path, contents: nil))
        file = try FileHandle(forWritingTo: url)
        print("fuzzing \(target.name): should the process end here, \(url.path) holds the input that did it")
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
