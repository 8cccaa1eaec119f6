# neuroncore with its tests: docker build -t neuroncore . && docker run --rm neuroncore
FROM python:3.13-slim
WORKDIR /neuroncore
COPY . .
RUN pip install --no-cache-dir -e '.[test,notebook]' && python -c "import neuroncore; neuroncore.warm()"
CMD ["neuroncore", "run", "kernels/ch05_matmul.py::blocked"]
