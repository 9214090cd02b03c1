/// The notation of a kind of value: parsing from text, and rendering in its shortest form.
///
/// Folder `Formats/`: how each kind of value is written in the configuration, and which values are allowed.
struct ValueFormat<Value>: Sendable {
    /// The expected notation, as printed in the reference: `whole number, 1 to 100`.
    let expectation: String
    let parse: @Sendable (String) throws(ConfigValueError) -> Value
    let render: @Sendable (Value) -> String

    init(
        _ expectation: String, render: @escaping @Sendable (Value) -> String = { String(describing: $0) },
        parse: @escaping @Sendable (String) throws(ConfigValueError) -> Value
    ) {
        self.expectation = expectation
        self.parse = parse
        self.render = render
    }
}

extension ValueFormat where Value: Comparable & Sendable {
    /// A value in a range.
    static func within(
        _ range: ClosedRange<Value>, _ noun: String,
        render: @escaping @Sendable (Value) -> String = { String(describing: $0) },
        parse: @escaping @Sendable (String) throws(ConfigValueError) -> Value
    ) -> Self {
        let bounds = "\(render(range.lowerBound)) to \(render(range.upperBound))"
        return ValueFormat("\(noun), \(bounds)", render: render) { text throws(ConfigValueError) in
            let value = try parse(text)
            try require(range.contains(value), "must be in the allowed range, not \(text)", "write \(bounds)")
            return value
        }
    }
}

extension ValueFormat where Value == Int {
    /// A whole number in decimal digits.
    static func integer(_ range: ClosedRange<Int>) -> Self {
        within(range, "whole number") { text throws(ConfigValueError) in
            guard isNumber(text), let number = Int(text) else {
                throw ConfigValueError(
                    "must be a whole number, not \(text.quoted)",
                    "write a number from \(range.lowerBound) to \(range.upperBound)")
            }
            return number
        }
    }

    private static func isNumber(_ text: String) -> Bool {
        let digits = text.hasPrefix("-") ? text.dropFirst() : text[...]
        return !digits.isEmpty && digits.utf8.allSatisfy { (0x30...0x39).contains($0) }
    }
}

extension ValueFormat where Value == Double {
    /// A decimal fraction.
    static func fraction(_ range: ClosedRange<Double>) -> Self {
        within(range, "decimal number") { text throws(ConfigValueError) in
            let isDecimal = text.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == 0x2e || $0 == 0x2d }
            guard isDecimal, let number = Double(text) else {
                throw ConfigValueError("must be a decimal number, not \(text.quoted)", "write a number such as 0.25")
            }
            return number
        }
    }
}

extension ValueFormat where Value == Bool {
    /// `true` or `false`.
    static let flag = ValueFormat("`true` or `false`") { text throws(ConfigValueError) in
        switch text {
        case "true", "True", "TRUE": return true
        case "false", "False", "FALSE": return false
        default:
            let meant = ["yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"]
            throw ConfigValueError(
                "must be true or false, not \(text.quoted)", "write \(meant[text.lowercased()] ?? "true or false")")
        }
    }
}

extension ValueFormat where Value: RawRepresentable<String> & CaseIterable & Sendable {
    /// One of several words, case-insensitive.
    static func choice(of choices: [Value] = Array(Value.allCases)) -> Self {
        ValueFormat(choices.map { "`\($0.rawValue)`" }.joined(separator: ", "), render: { $0.rawValue }) {
            text throws(ConfigValueError) in
            guard let value = choices.first(where: { $0.rawValue.lowercased() == text.lowercased() }) else {
                throw ConfigValueError(
                    "must be one of the allowed values, not \(text.quoted)",
                    "write " + choices.map(\.rawValue).alternatives)
            }
            return value
        }
    }
}
