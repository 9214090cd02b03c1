import Foundation

/// A span as the gateway writes it into its log.
struct SpanLine: Decodable, Equatable {
    /// A JSON string or number.
    enum Value: Decodable, Equatable {
        case text(String)
        case number(Int)

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let number = try? container.decode(Int.self) {
                self = .number(number)
            } else {
                self = .text(try container.decode(String.self))
            }
        }
    }

    var name: String
    var kind: String
    var trace_id: String
    var span_id: String
    var parent_span_id: String?
    var status: String?
    var attributes: [String: Value]?
    var links: [String]?

    /// The start of the `traceparent` that an upstream receives for this span.
    var traceparent: String { "00-\(trace_id)-\(span_id)-" }

    subscript(attribute: String) -> Value? { attributes?[attribute] }
}

extension GatewayProcess {
    /// The spans so far, in the order in which they ended.
    var spans: [SpanLine] {
        program.lines.filter { $0.contains(#""logger":"span""#) }
            .compactMap { try? JSONDecoder().decode(SpanLine.self, from: Data($0.utf8)) }
    }

    /// Waits for a span: it is written shortly after the response.
    func span(_ what: String, where isMeant: @escaping (SpanLine) -> Bool) async throws -> SpanLine {
        try await program.waits(for: what) { _ in spans.first(where: isMeant) }
    }
}
