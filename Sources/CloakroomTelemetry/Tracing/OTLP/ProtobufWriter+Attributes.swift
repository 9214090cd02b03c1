import Tracing

extension ProtobufWriter {
    /// Writes attributes as repeated `KeyValue` (opentelemetry-proto, common.proto), sorted by name.
    mutating func attributes(_ field: UInt64, _ attributes: SpanAttributes) {
        var sorted: [(name: String, value: SpanAttribute)] = []
        attributes.forEach { sorted.append(($0, $1)) }
        sorted.sort { $0.name < $1.name }
        for (name, value) in sorted { attribute(field, name, value) }
    }

    /// One `KeyValue`.
    mutating func attribute(_ field: UInt64, _ name: String, _ value: SpanAttribute) {
        message(field) { pair in
            pair.string(1, name)
            pair.message(2) { $0.any(value) }
        }
    }

    /// Writes the field of an `AnyValue`, even if it is empty or zero; without it there would be no value.
    private mutating func any(_ value: SpanAttribute) {
        switch value {
        case .int32(let number): any(Int64(number))
        case .int64(let number): any(number)
        case .double(let number): any(number)
        case .bool(let flag): any(flag)
        case .string(let text): any(text)
        case .stringConvertible(let value): any(value.description)
        case .int32Array(let numbers): array(numbers) { $0.any(Int64($1)) }
        case .int64Array(let numbers): array(numbers) { $0.any($1) }
        case .doubleArray(let numbers): array(numbers) { $0.any($1) }
        case .boolArray(let flags): array(flags) { $0.any($1) }
        case .stringArray(let texts): array(texts) { $0.any($1) }
        case .stringConvertibleArray(let values): array(values) { $0.any($1.description) }
        // The remaining case cannot be named in the API and does not occur in attributes.
        default: break
        }
    }

    private mutating func any(_ text: String) { string(1, text) }
    private mutating func any(_ flag: Bool) { varint(2, flag ? 1 : 0) }
    private mutating func any(_ number: Int64) { varint(3, UInt64(bitPattern: number)) }
    private mutating func any(_ number: Double) { fixed64(4, number.bitPattern) }

    private mutating func array<Element>(
        _ elements: [Element], _ write: (inout ProtobufWriter, Element) -> Void
    ) {
        message(5) { array in
            for element in elements {
                array.message(1) { write(&$0, element) }
            }
        }
    }
}
