extension ConfigScope {
    /// How a section is written whose value is one key without a blank, or that of its main key.
    static func sectionRemedy(_ text: String, of name: String) -> String? {
        if let pair = text.wholeMatch(of: /([a-z][A-Za-z]*):(?!\/\/).+/) { return "write a blank after \(pair.1):" }
        let main = [
            "signIn": "path", "refresh": "path", "revoke": "path", "user": "path", "health": "path", "files": "root",
        ]
        return main[name].map { "write { \($0): \(text.escaped) }" }
    }

    /// The error of a value. A reference, and typographic quotation marks, are no value of any format.
    func explained(_ error: ConfigValueError, _ text: String, _ name: String) -> ConfigValueError {
        if VariableReference.isOne(text), !error.message.contains("variable references") {
            return ConfigValueError(
                "variable references are not supported", "write the value, or set \(reading.variable(path + [name]))")
        }
        guard let first = text.first, "“”„‘’".contains(first) else { return error }
        return ConfigValueError(error.message, "write straight quotation marks")
    }
}
