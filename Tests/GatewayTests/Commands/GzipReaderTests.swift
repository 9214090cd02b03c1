import Foundation
import TestSupport
import Testing

@testable import cloakroom

@Suite("Logs that are compressed by gzip")
struct GzipReaderTests {
    /// Two members: `one`, `two` and `three`, each with a line feed.
    private static let file = Array(
        Data(base64Encoded: "H4sIAAAAAAACA8vPS+UqKc/nAgDmC7oSCAAAAB+LCAAAAAAAAgMryShKTeUCANjFRv8GAAAA") ?? Data())

    private static func read(_ bytes: [UInt8], inPartsOf size: Int) throws -> String {
        let reader = try GzipReader()
        var text: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: size) {
            try reader.read(Array(bytes[start..<min(start + size, bytes.count)])) { text += $0 }
        }
        try reader.finish()
        return String(decoding: text, as: UTF8.self)
    }

    @Test("All members are read, in parts of any size", arguments: [1, 7, 1_000])
    func members(size: Int) throws {
        try expect(Self.read(Self.file, inPartsOf: size), equals: "one\ntwo\nthree\n")
        let padded = Self.file + [UInt8](repeating: 0, count: 20)
        try expect(Self.read(padded, inPartsOf: size), equals: "one\ntwo\nthree\n")
    }

    @Test("A file that is cut or damaged is an error")
    func defects() throws {
        #expect(throws: GzipReader.Defect.self) { try Self.read(Array(Self.file.dropLast()), inPartsOf: 10) }
        #expect(throws: GzipReader.Defect.self) { try Self.read(Self.file + [0x41], inPartsOf: 1_000) }
        var damaged = Self.file
        damaged[14] ^= 0xff
        #expect(throws: GzipReader.Defect.self) { try Self.read(damaged, inPartsOf: 1_000) }
    }
}
