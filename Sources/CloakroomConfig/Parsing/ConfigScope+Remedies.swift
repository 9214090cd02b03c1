extension ConfigScope {
    /// How a section is written whose value is one key without a blank, or that of its main key.
    static func sectionRemedy(_ text: String, of name: String) -> String? {
        // A value such as localhost:8080 is no key without a blank.
        if name != "listeners", let pair = text.wholeMatch(of: /([a-z][A-Za-z]*):(?!\/\/).+/) {
            return "write a blank after \(pair.1):"
        }
        let main = [
            "bearer": "scheme", "files": "root", "health": "path", "listeners": "address", "prove": "ready",
            "redirect": "to", "refresh": "path", "revoke": "path", "signIn": "path", "sqlite": "path", "user": "path",
        ]
        if text == "false", ["admin", "metrics"].contains(name) { return "write { enabled: false }" }
        return main[name].map { "write { \($0): \(text.escaped) }" }
    }

    /// The error of a value. A reference, and typographic quotation marks, are no value of any format.
    /// - Parameter isItem: Whether it is the value of an item of a list.
    func explained(_ error: ConfigValueError, _ text: String, _ name: String, isItem: Bool = false) -> ConfigValueError
    {
        let isInFile = if case .file = reading.origin(path + [name]) { true } else { false }
        if isItem, !isInFile, text.hasPrefix("[") || text.hasSuffix("]") {
            return ConfigValueError(error.message, "write the list without brackets: one,another")
        }
        if VariableReference.isOne(text), !error.message.contains("variable references") {
            return ConfigValueError(
                "variable references are not supported", "write the value, or set \(reading.variable(path + [name]))")
        }
        guard let first = text.first, "“”„‘’".contains(first) else { return error }
        return ConfigValueError(error.message, "write straight quotation marks")
    }
}
