import CloakroomWire
import Foundation
import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("Header blocks of other encoders")
struct HPACKCorpusTests {
    private static let directory = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("Corpus")
    private static let limits = HeadLimits(head: 65_535, fields: 1_000, target: 65_535)

    static func stories() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: directory.path).filter { $0.hasSuffix(".txt") }.sorted()
    }

    @Test("The corpus is complete")
    func completeness() throws {
        #expect(try Self.stories().count >= 16)
    }

    @Test("Each block has the fields of the corpus, and the table is that of a plain decoder", arguments: try stories())
    func story(_ name: String) throws {
        let text = try String(contentsOf: Self.directory.appendingPathComponent(name), encoding: .utf8)
        let blocks = text.split(separator: "\n\n").map { $0.split(separator: "\n") }
        expect(!blocks.isEmpty)
        // Encoders may use less than the limit that was announced last, so the highest is enough.
        let maxLimit = blocks.joined().compactMap { $0.hasPrefix("limit ") ? Int($0.dropFirst(6)) : nil }.max()
        let decoder = TestDecoder(tableLimit: max(maxLimit ?? 0, 4_096))
        var reference = HPACKReference.standard(maxLimit: max(maxLimit ?? 0, 4_096))
        for lines in blocks {
            let wire = hex(String(try require(lines.first { $0.hasPrefix("wire ") }).dropFirst(5)))
            let fields = lines.filter { !$0.hasPrefix("wire ") && !$0.hasPrefix("limit ") }.map(Self.field)
            try expect(reference.decode(wire), equals: fields)
            var head = RequestHead()
            let result = try decoder.decode(wire, limits: Self.limits, into: &head)
            expect(decoder.tableLines, equals: reference.table.map { String(decoding: $0.line, as: UTF8.self) })
            let model = RequestModel(fields)
            if case .request(let block) = result {
                expect(RequestModel(head, block), equals: model)
            } else {
                // Responses, and requests that were converted from HTTP/1.1 with their field `connection`.
                expect(model == nil && result == .malformed)
            }
        }
    }

    private static func field(_ line: Substring) -> HPACKReference.Field {
        let colon = line.dropFirst().firstIndex(of: ":") ?? line.endIndex
        return HPACKReference.Field(String(line[..<colon]), String(line[colon...].dropFirst(2)))
    }
}
